"""Atomic replacement of a file: at every moment it is the old one or the new one."""

import contextlib
import os
import tempfile


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
    handle, temporary = tempfile.mkstemp(dir=folder or ".", prefix=f".{name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
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
