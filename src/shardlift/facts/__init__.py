"""Facts: what the calls of a program were seen to do, and the capture they are written to.

Reading a capture needs no JAX; recording one does, and is loaded when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'shardlift.facts' has no attribute {name!r}")
    return getattr(importlib.import_module(f"shardlift.facts.{_WHERE[name]}"), name)
