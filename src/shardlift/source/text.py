"""Reading: bytes in, Python text out, or a sentence that says why not."""

from __future__ import annotations

import io
import sys
import tokenize
import warnings
from ast import Module, parse
from dataclasses import dataclass

from shardlift.source.notebook import Cells, read_notebook


@dataclass(frozen=True)
class Source:
    """The Python text of one file; of a notebook, its code cells joined."""

    path: str
    text: str
    cells: Cells | None = None


# Characters of Python that are parsed: a tree of them takes some 300 times as many bytes.
LARGEST = 8_000_000


class UnreadableError(ValueError):
    """The file is not Python that can be parsed; the message says where."""


def read_source(path: str, content: bytes) -> Source:
    """Decode a file as Python would (PEP 263), a notebook as JSON."""
    text = _decoded(path, content)
    if not path.endswith(".ipynb"):
        return Source(path, text)
    try:
        code, cells = read_notebook(text)
    except RecursionError:
        raise UnreadableError("not a notebook: nested too deeply") from None
    except ValueError as error:  # not JSON, not of format 4, a number of thousands of digits
        raise UnreadableError(f"not a notebook: {error}") from error
    return Source(path, code, cells)


def _decoded(path: str, content: bytes) -> str:
    try:
        if path.endswith(".ipynb"):
            return content.decode("utf-8-sig")
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise UnreadableError(f"cannot be decoded: {error}") from error


def parse_source(source: Source) -> Module:
    """Parse, with the one message a person needs when it is not Python 3."""
    if len(source.text) > LARGEST:
        size = f"{len(source.text) / 1e6:.0f} million characters of Python"
        raise UnreadableError(f"{size}; no more than {LARGEST / 1e6:.0f} are parsed")
    try:
        with warnings.catch_warnings():
            # Invalid escapes and the like are the business of other tools.
            warnings.simplefilter("ignore")
            return parse(source.text, source.path)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        # Python 2, or newer than the Python that runs this: which one it was is part of the answer.
        by = f"as Python {sys.version_info.major}.{sys.version_info.minor} reads it"
        raise UnreadableError(f"{where}{error.msg} ({by})") from error
    except (RecursionError, MemoryError):
        raise UnreadableError("nested too deeply for Python to parse") from None
    except ValueError as error:
        raise UnreadableError(str(error)) from error
