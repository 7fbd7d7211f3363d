"""Reading the files that a command was given."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from shardlift.cli.stop import stop

if TYPE_CHECKING:
    from shardlift.capture.schema import Capture

LARGEST_FILE = 256 * 2**20  # bytes; no program or notebook comes near


def read_bytes(path: str) -> bytes:
    """The bytes of a regular file; a pipe or a device is not waited for."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "is not a file")
        content = stream.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise OSError(errno.EFBIG, f"has more than {LARGEST_FILE // 2**20} MB")
    return content


def reason(error: OSError) -> str:
    """Why a file cannot be had, in a few words."""
    return error.strerror or str(error) or type(error).__name__


def read_capture(path: str, option: str = "") -> Capture:
    """Read a capture with its parts, or stop with the reason; ``option`` is what named it."""
    from shardlift.capture.files import CaptureError
    from shardlift.capture.parts import read_whole

    try:
        return read_whole(path)
    except CaptureError as error:
        stop(str(error))
    except OSError as error:
        stop(f"{option} {path} cannot be read: {reason(error)}".lstrip())
