"""Source text: decoding and parsing files, with an error message if that fails."""

import hashlib
import io
import re
import sys
import tokenize
import warnings
from ast import Module, parse
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from shardlift.source.edits import line_starts
from shardlift.source.notebook import Cells, is_python, read_notebook


@dataclass(frozen=True)
class Source:
    """The Python text of a file, or the joined code cells of a notebook."""

    path: str
    text: str
    cells: Cells | None = None

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their ends; the last is empty if the text ends in one."""
        return [self.text[a:b] for a, b in pairwise([*line_starts(self.text), len(self.text)])]

    @cached_property
    def digest(self) -> str:
        """A short digest of the text: what a run showed holds only for the text that ran."""
        content = self.text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, digest_size=16).hexdigest()


def usual_quote(text: str) -> str:
    """The quote around most strings of a text, docstrings aside."""
    text = text.replace('"""', "").replace("'''", "")
    return "'" if text.count("'") > text.count('"') else '"'


# The longest text that is parsed, in characters: its tree takes about 300 times as many bytes.
LARGEST = 8_000_000

# Lines that only IPython runs, as Colab exports them, and what hides them as comments.
_MAGIC = re.compile(r"^([ \t]*)(![^=].*|%(?!time|prun)[a-zA-Z].*)$", re.M)
_MASK = re.compile("(?:pass  )?#\x1a")


class UnreadableError(ValueError):
    """A file cannot be decoded or parsed; the message says why and where."""


def read_source(path: str, content: bytes) -> Source:
    """Decode a file as Python does (PEP 263), or a notebook as JSON."""
    text = _decode(path, content)
    if not path.endswith(".ipynb"):
        return Source(path, mask_magics(text))
    try:
        code, cells = read_notebook(text)
    except RecursionError:
        raise UnreadableError("not a notebook: nested too deeply") from None
    except ValueError as error:  # not JSON, not of format 4, a number with too many digits
        raise UnreadableError(f"not a notebook: {error}") from error
    return Source(path, code, cells)


def mask_magics(text: str) -> str:
    """A text that is Python but for magics, with these as comments; any other as it is."""
    masked = _MAGIC.sub(lambda m: f"{m[1]}{'pass  ' if m[1] else ''}#\x1a{m[2]}", text)
    is_right = masked != text and len(text) < LARGEST and is_python(masked) and not is_python(text)
    return masked if is_right else text


def show_magics(text: str) -> str:
    """The text without what `mask_magics` put into it."""
    return _MASK.sub("", text) if "\x1a" in text else text


def _decode(path: str, content: bytes) -> str:
    try:
        if path.endswith(".ipynb"):
            return content.decode("utf-8-sig")
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise UnreadableError(f"cannot be decoded: {error}") from error


def parse_source(source: Source) -> Module:
    """Parse a text. The error for a text that is not Python 3 names the line."""
    if len(source.text) > LARGEST:
        size = f"{len(source.text) / 1e6:.0f} million characters of Python"
        raise UnreadableError(f"{size}, which is more than the limit of {LARGEST / 1e6:.0f}")
    try:
        with warnings.catch_warnings():
            # Warnings such as those for invalid escapes are the business of other tools.
            warnings.simplefilter("ignore")
            return parse(source.text, source.path)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        # The text may be Python 2, or newer than the Python that runs this: name the version.
        by = f"as Python {sys.version_info.major}.{sys.version_info.minor} reads it"
        raise UnreadableError(f"{where}{error.msg} ({by})") from error
    except (RecursionError, MemoryError):
        raise UnreadableError("nested too deeply for Python to parse") from None
    except ValueError as error:
        raise UnreadableError(str(error)) from error


def comments_in(text: str) -> list[tokenize.TokenInfo]:
    """The comments of a text that can be read on its own, such as an expression in parentheses.

    >>> [comment.string for comment in comments_in('(f(x,  # the rows\\n"#"))')]
    ['# the rows']
    """
    if "#" not in text:
        return []
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token for token in tokens if token.type == tokenize.COMMENT]


def has_comment(text: str) -> bool:
    """Whether a text has a comment, or may have one because it cannot be read on its own."""
    try:
        return bool(comments_in(text))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return True
