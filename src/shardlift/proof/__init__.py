"""Proof: which outputs are equal on all devices, and whether two programs compute the same.

`comparing` and `taping` are `shardlift verify`; the rest is `shardlift.replication`. Nothing is
loaded before it is asked for: a program that is run on tape imports JAX when it wants to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlift._lazy import lazy

if TYPE_CHECKING:
    from shardlift.proof.outcome import NotProven as NotProven
    from shardlift.proof.outcome import Proven as Proven
    from shardlift.proof.outcome import Replication as Replication
    from shardlift.proof.prove import replication as replication

_WHERE = {
    "NotProven": "outcome", "Proven": "outcome", "Replication": "outcome", "replication": "prove",
}  # fmt: skip
__all__ = list(_WHERE)

__getattr__, __dir__ = lazy(__name__, _WHERE)
