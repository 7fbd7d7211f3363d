"""Cutting a stream of bytes into lines."""

import re
from collections.abc import Callable


class Lines:
    r"""Calls ``take`` with each line; a carriage return ends one too, as progress bars use it.

    >>> seen = []
    >>> lines = Lines(seen.append)
    >>> for chunk in (b"one\ntw", b"o\r50%\r", b"end", b""):
    ...     lines.feed(chunk)
    >>> seen
    ['one', 'two', '50%', 'end']
    """

    def __init__(self, take: Callable[[str], None]) -> None:
        """``take`` is called with each line, without its end."""
        self.take = take
        self.rest = b""

    def feed(self, chunk: bytes) -> None:
        """Take what was read; nothing means the end of the stream."""
        *lines, self.rest = re.split(rb"\r\n|\n|\r(?!$)", self.rest + chunk)
        if not chunk and self.rest:
            lines, self.rest = [*lines, self.rest.rstrip(b"\r")], b""
        for line in lines:
            self.take(line.decode(errors="replace"))
