"""The public names for captures: reading, writing and merging them, and recording one.

Reading a capture needs no JAX. `Recorder` does, and is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from shardlift._lazy import lazy

if TYPE_CHECKING:
    from shardlift.capture.files import CaptureError as CaptureError
    from shardlift.capture.files import read as read
    from shardlift.capture.files import write as write
    from shardlift.capture.merge import merge as merge
    from shardlift.capture.schema import Capture as Capture
    from shardlift.recording.recorder import Recorder as Recorder

_WHERE = {
    "Capture": "shardlift.capture.schema",
    "CaptureError": "shardlift.capture.files",
    "Recorder": "shardlift.recording.recorder",
    "merge": "shardlift.capture.merge",
    "read": "shardlift.capture.files",
    "write": "shardlift.capture.files",
}
__all__ = list(_WHERE)

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__, __dir__ = lazy(__name__, _WHERE)
