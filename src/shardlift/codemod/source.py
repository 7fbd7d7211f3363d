"""Reading: bytes in, Python text out, or a sentence that says why not."""

from __future__ import annotations

import io
import json
import tokenize
import warnings
from ast import Module, parse
from dataclasses import dataclass

from shardlift.codemod.notebook import Cells, read_notebook


@dataclass(frozen=True)
class Source:
    """The Python text of one file; of a notebook, its code cells joined."""

    path: str
    text: str
    cells: Cells | None = None


class UnreadableError(ValueError):
    """The file is not Python that can be parsed; the message says where."""


def read_source(path: str, content: bytes) -> Source:
    """Decode a file as Python would (PEP 263), a notebook as JSON."""
    try:
        if path.endswith(".ipynb"):
            text, cells = read_notebook(content.decode("utf-8-sig"))
            return Source(path, text, cells)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return Source(path, content.decode(encoding))
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UnreadableError(f"cannot be decoded: {error}") from error
    except (json.JSONDecodeError, ValueError, RecursionError) as error:
        raise UnreadableError(f"not a notebook: {error}") from error


def parse_source(source: Source) -> Module:
    """Parse, with the one message a person needs when it is not Python 3."""
    try:
        with warnings.catch_warnings():
            # Invalid escapes and the like are the business of other tools.
            warnings.simplefilter("ignore")
            return parse(source.text, source.path)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        raise UnreadableError(f"{where}{error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(str(error) or type(error).__name__) from error
