"""Facts: what the calls of a program were seen to do, and the capture they are written to.

Reading a capture needs no JAX; recording one does, and is loaded when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlift._lazy import lazy

if TYPE_CHECKING:
    from shardlift.facts.files import CaptureError as CaptureError
    from shardlift.facts.files import read as read
    from shardlift.facts.files import write as write
    from shardlift.facts.merging import merge as merge
    from shardlift.facts.recorder import Recorder as Recorder
    from shardlift.facts.schema import Capture as Capture

_WHERE = {
    "Capture": "schema",
    "CaptureError": "files",
    "Recorder": "recorder",
    "merge": "merging",
    "read": "files",
    "write": "files",
}
__all__ = list(_WHERE)

if not TYPE_CHECKING:  # or a checker would take any name for one of ours
    __getattr__, __dir__ = lazy(__name__, _WHERE)
