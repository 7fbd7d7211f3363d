"""`shardlift.replication`: prove from a jaxpr which outputs are equal on all devices.

The package has an underscore because the public function has its plain name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlift._lazy import lazy

if TYPE_CHECKING:
    from shardlift._replication.outcome import NotProven as NotProven
    from shardlift._replication.outcome import Proven as Proven
    from shardlift._replication.outcome import Replication as Replication
    from shardlift._replication.proof import replication as replication

_WHERE = {
    "NotProven": "shardlift._replication.outcome",
    "Proven": "shardlift._replication.outcome",
    "Replication": "shardlift._replication.outcome",
    "replication": "shardlift._replication.proof",
}
__all__ = list(_WHERE)

__getattr__, __dir__ = lazy(__name__, _WHERE)
