"""Laying a call out: on one line where it fits, else broken as a formatter would break it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

from shardlift.source.scopes import all_arguments, index_of
from shardlift.source.text import usual_quote

_WIDTHS = (80, 88, 100, 120, 150, 200)
_LONGEST = 120  # of the lines of a new call, even where others are longer
# Formatters leave addresses, comments, words to other tools and long strings on one line.
_NEVER_BROKEN = re.compile(r"""http|^\s*#|#\s*(\w+:|noqa)|"[^"]{30,}"|'[^']{30,}'""")
_FEW = 3  # lines that are longer than others may be


@dataclass(frozen=True)
class TextBlock:
    """Text of several lines, and the margin of the line that it began on."""

    text: str
    margin: str

    def at(self, margin: str) -> str:
        """The text with its further lines moved to another margin."""
        first, *others = self.text.split("\n")
        moved = (
            margin + line[len(self.margin) :] if line.startswith(self.margin) else line
            for line in others
        )
        return "\n".join((first, *moved))


@dataclass(frozen=True)
class CallText:
    """A call that is still to be laid out; arguments are text or calls themselves.

    A tuple is a call of nothing: `in_specs=(a, b)` is a call of `in_specs=`.
    """

    function: str
    arguments: tuple[Argument, ...]
    after: str = ""  # what follows its closing bracket

    def flat(self) -> str:
        """The call on one line, if all of it can be."""
        parts = (
            a if isinstance(a, str) else a.text if isinstance(a, TextBlock) else a.flat()
            for a in self.arguments
        )
        return f"{self.function}({', '.join(parts)}){self.after}"

    @property
    def is_flat(self) -> bool:
        """Whether nothing in it keeps lines of its own."""
        return not any(
            isinstance(a, TextBlock) or (isinstance(a, CallText) and not a.is_flat)
            for a in self.arguments
        )


Argument = str | TextBlock | CallText


@dataclass(frozen=True)
class Style:
    """How a file is laid out, read off its text."""

    width: int
    indent: str
    quote: str
    typed: bool = False  # whether most functions are annotated

    @classmethod
    def plain(cls) -> Style:
        """Four spaces, double quotes, no annotations."""
        return cls(_WIDTHS[1], "    ", '"')

    @classmethod
    def of(cls, text: str) -> Style:
        """The style that most lines of a text follow."""
        lines = text.splitlines()
        code = [line for line in lines if not _NEVER_BROKEN.search(line)]
        quote, indent = usual_quote(text), _indent(lines)
        # Where black has 80, no line grows over it.
        is_more = (quote, indent) == ('"', "    ") and any(80 < len(line) <= 88 for line in code)
        fits = (w for w in _WIDTHS[is_more:] if sum(len(line) > w for line in code) < _FEW)
        return cls(next(fits, _WIDTHS[-1]), indent, quote)

    @classmethod
    def of_helpers(cls, text: str) -> Style:
        """The style of helpers for a text: annotated if most of its functions are."""
        return replace(cls.of(text), typed=_is_typed(text))

    def string(self, value: str) -> str:
        """A string literal."""
        return f"{self.quote}{value}{self.quote}"


def render(call: CallText, style: Style, margin: str, column: int, after: int = 0) -> str:
    """The text of a call that starts at a column of a line indented by `margin`.

    `after` is how many characters follow it on its line.
    """
    style = replace(style, width=min(style.width, _LONGEST))
    flat = call.flat()
    if call.is_flat and ("\n" in flat or column + len(flat) + after <= style.width):
        return flat
    # Blocks of two spaces go with arguments that are four further in.
    inner = margin + ("    " if style.indent == "  " else style.indent)
    head = flat.removesuffix(call.after)
    if call.is_flat and call.after and column + len(head) < style.width and "lambda" not in head:
        return f"{head}(\n{inner}{call.after[1:-1]}\n{margin})"
    arguments = head[len(call.function) + 1 : -1]
    if call.is_flat and len(inner) + len(arguments) <= style.width:
        return f"{call.function}(\n{inner}{arguments}\n{margin}){call.after}"
    comma = "," if len(call.arguments) > 1 else ""
    parts = (_part(argument, style, inner, len(comma)) for argument in call.arguments)
    listed = "".join(f"{inner}{part}{comma}\n" for part in parts)
    return f"{call.function}(\n{listed}{margin}){call.after}"


def _part(argument: Argument, style: Style, margin: str, after: int) -> str:
    if isinstance(argument, str):
        return argument
    if isinstance(argument, TextBlock):
        return argument.at(margin)
    return render(argument, style, margin, len(margin), after)


@lru_cache(maxsize=8)  # each text is asked about by several steps
def _is_typed(text: str) -> bool:
    """Whether most functions of a text are annotated."""
    try:
        index = index_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = [node for node in index.functions() if not isinstance(node, ast.Lambda)]
    typed = [f for f in functions if f.returns or any(a.annotation for a in all_arguments(f.args))]
    return 0 < len(functions) < 2 * len(typed)


def _indent(lines: list[str]) -> str:
    """The step by which blocks are indented."""
    steps: Counter[str] = Counter()
    before = ""
    for line in lines:
        if line.strip():
            margin = line[: len(line) - len(line.lstrip())]
            if before.endswith(":") and len(margin) in (1, 2, 3, 4, 8):
                steps[margin] += 1
            before = line.rstrip() if not line[0].isspace() else ""
    return steps.most_common(1)[0][0] if steps else "    "
