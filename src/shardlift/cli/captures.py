"""Reading the captures that a command was given."""

from __future__ import annotations

from shardlift.capture.files import CaptureError
from shardlift.capture.parts import read_whole
from shardlift.capture.schema import Capture
from shardlift.cli.input_files import reason
from shardlift.cli.stop import stop


def read_capture(path: str, option: str = "") -> Capture:
    """Read a capture with its parts, or stop with the reason; ``option`` is what named it."""
    try:
        return read_whole(path)
    except CaptureError as error:
        stop(str(error))
    except OSError as error:
        stop(f"{option} {path} cannot be read: {reason(error)}".lstrip())
