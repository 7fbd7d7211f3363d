"""Atomic replacement of a file: at every moment it is the old one or the new one."""

import contextlib
import os
import secrets
from functools import partial


def replace_file(path: str | os.PathLike[str], content: bytes | memoryview) -> None:
    """Replace a file's content; the file keeps its mode.

    The content is written beside the file and renamed over it: a full disk leaves the old file
    intact.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.txt")
    ...     replace_file(path, b"new")
    ...     path.read_text(), len(list(path.parent.iterdir()))
    ('new', 1)
    """
    target = os.fspath(path)
    folder, name = os.path.split(target)
    # The name is known before the file is there: Ctrl-C at any moment leaves none behind.
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=0o600)) as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except FileExistsError:  # somebody else's
        raise
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(target: str) -> int:
    if os.path.exists(target):
        return os.stat(target).st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
