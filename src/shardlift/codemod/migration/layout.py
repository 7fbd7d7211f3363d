"""Laying a call out: on one line where it fits, else broken as a formatter would break it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

_WIDTHS = (80, 88, 100, 120)


@dataclass(frozen=True)
class CallText:
    """A call that is still to be laid out; arguments are text or calls themselves."""

    function: str
    arguments: tuple[str | CallText, ...]

    def flat(self) -> str:
        """The call on one line."""
        inner = ", ".join(a if isinstance(a, str) else a.flat() for a in self.arguments)
        return f"{self.function}({inner})"


@dataclass(frozen=True)
class Style:
    """How a file is laid out, read off its text."""

    width: int
    indent: str
    quote: str

    @classmethod
    def of(cls, text: str) -> Style:
        """The style that most lines of a text follow."""
        lines = text.splitlines()
        code = [line for line in lines if "http" not in line and not line.lstrip().startswith("#")]
        allowed = max(3, len(code) // 50)
        fits = (w for w in _WIDTHS if sum(len(line) > w for line in code) < allowed)
        quote = "'" if text.count("'") > text.count('"') else '"'
        return cls(next(fits, _WIDTHS[-1]), _indent(lines), quote)

    def string(self, value: str) -> str:
        """A string literal."""
        return f"{self.quote}{value}{self.quote}"


def render(call: CallText, style: Style, margin: str, column: int, after: int = 0) -> str:
    """The text of a call that starts at a column of a line indented by `margin`.

    `after` is how many characters follow it on its line.
    """
    flat = call.flat()
    if "\n" in flat or column + len(flat) + after <= style.width:
        return flat  # what is on several lines already keeps them
    # Blocks of two spaces go with arguments that are four further in.
    inner = margin + ("    " if style.indent == "  " else style.indent)
    arguments = flat[len(call.function) + 1 : -1]
    if len(inner) + len(arguments) <= style.width:
        return f"{call.function}(\n{inner}{arguments}\n{margin})"
    parts = (
        a if isinstance(a, str) else render(a, style, inner, len(inner), 1) for a in call.arguments
    )
    listed = "".join(f"{inner}{part},\n" for part in parts)
    return f"{call.function}(\n{listed}{margin})"


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
