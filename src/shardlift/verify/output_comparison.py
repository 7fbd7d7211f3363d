"""Compares what two programs print, line by line, with times and the like masked."""

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from shardlift.verify.compare.array_distance import Tolerance

_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?"
_NUMBER_OF = r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)? ?"
# Text that may differ: it is replaced by the name of the mask in both programs.
MASKS = (
    ("date", re.compile(rf"\b\d{{4}}-\d\d-\d\d(?:[T _]+{_CLOCK})?(?:Z|[+-]\d\d:?\d\d)?")),
    ("date", re.compile(rf"\b[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} +\d+ {_CLOCK}(?: \w+)? \d{{4}}")),
    ("time of day", re.compile(rf"\b{_CLOCK}\b")),
    ("rate", re.compile(rf"{_NUMBER_OF}(?:[a-z]+/s(?:ec)?|s/[a-z]+)\b")),
    ("duration", re.compile(rf"{_NUMBER_OF}(?:[nuµm]s|s|secs?|seconds)\b")),
    ("address", re.compile(r"\b0x[0-9a-f]{6,}\b")),
    ("line number", re.compile(r"(?<=\.py:)\d+|(?<=\", line )\d+")),
    ("temporary path", re.compile(r"(?:/tmp|/var/folders)/[^\s'\":,)\]]+")),
)  # fmt: skip


class Difference(NamedTuple):
    """The first difference at one place."""

    where: str  # a stream
    line: int | None  # from 0; None if there is no such line on one side, or no lines
    before: str | None
    after: str | None
    of_numbers: bool = True  # False if only other words, or more lines, are there

    @property
    def place(self) -> tuple[str, int | None]:
        """What identifies it in another comparison."""
        return self.where, self.line

    @property
    def at(self) -> str:
        """Where it is."""
        return self.where if self.line is None else f"{self.where}, line {self.line + 1}"

    def __str__(self) -> str:
        at = self.at
        if self.before is None or self.after is None:
            side, text = ("after", self.after) if self.before is None else ("before", self.before)
            return f"{at}: only {side}: {_clip(text or '')}"
        return f"{at}: {_clip(self.before)} before, {_clip(self.after)} after"


def compare_output(
    before: Mapping[str, str],
    after: Mapping[str, str],
    tolerance: Tolerance,
    unstable: Collection[tuple[str, int | None]] = (),
) -> list[Difference]:
    """All differences but those at ``unstable`` places, such as `Difference.place`.

    ``before`` and ``after`` have the text of each stream. Only standard output is compared: what
    libraries log to standard error is not told from what the program says there. Numbers in the
    text may differ within the tolerance.
    """
    differences = [
        difference
        for name in sorted({*_printed(before), *_printed(after)})
        for difference in _compare_texts(name, _printed(before), _printed(after), tolerance)
    ]
    return [d for d in differences if not {d.place, (d.where, None)} & {*unstable}]


def masked(output: Mapping[str, str]) -> list[str]:
    """The masks that matched."""
    text = "\n".join(map(mask, _printed(output).values()))
    return [name for name in dict(MASKS) if f"<{name}>" in text]


def _printed(output: Mapping[str, str]) -> dict[str, str]:
    """What a program prints to standard output, in each process."""
    return {k: without_gloo(text) for k, text in output.items() if k.startswith("stdout")}


def _compare_texts(
    where: str, before: Mapping[str, str], after: Mapping[str, str], tolerance: Tolerance
) -> Iterator[Difference]:
    left, right = (shown_lines(streams.get(where, "")) for streams in (before, after))
    if len(left) == len(right):
        for number, (old, new) in enumerate(zip(left, right, strict=True)):
            if not _same(old, new, tolerance):
                same_words = _VALUE.sub("#", old) == _VALUE.sub("#", new)
                yield Difference(where, number, old, new, of_numbers=same_words)
        return
    # Everything after the first line that one side has more is out of step.
    pairs = zip_longest(left, right)
    first = next(p for p in pairs if None in p or not _same(p[0], p[1], tolerance))
    lines = {*map(mask, left)}, {*map(mask, right)}
    only = lines[0] - lines[1], lines[1] - lines[0]
    words = [{_VALUE.sub("#", line) for line in side} for side in only]
    yield Difference(where, None, *first, of_numbers=not words[0].isdisjoint(words[1]))


def _same(before: str, after: str, tolerance: Tolerance) -> bool:
    """Whether two lines differ at most in numbers that are within the tolerance."""
    before, after = mask(before), mask(after)
    relative = tolerance.rtol + max(tolerance.ulps, tolerance.rounding) * 2.0**-23
    if not (relative or tolerance.atol) or _NUMBER.sub("#", before) != _NUMBER.sub("#", after):
        return before == after
    pairs = zip(_NUMBER.findall(before), _NUMBER.findall(after), strict=True)
    return all(_near(old, new, relative, tolerance.atol) for old, new in pairs)


def mask(text: str) -> str:
    """The text with the names of masks in place of their matches."""
    for name, pattern in MASKS:
        text = pattern.sub(f"<{name}>", text)
    return text


def shown_lines(text: str) -> list[str]:
    """The lines as a terminal shows them: what follows a carriage return replaces the line."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines]


def _clip(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")


_GLOO = "[Gloo] Rank "
_OF_GLOO = re.compile(
    r"(\[Gloo\] Rank | is connected to | peer ranks\. "
    r"|Expected number of connected peer ranks is : |\d+)*"
)


def without_gloo(text: str) -> str:
    """Standard output without the lines in which gloo says that processes are connected.

    Several threads of a process may write them at once, piece by piece, so that lines are mixed;
    each still ends one line.

    >>> without_gloo("[Gloo] Rank [Gloo] Rank 0 is connected to 1 peer ranks. \\n1\\n2\\nloss 1")
    '2\\nloss 1'
    """
    kept, open_lines = [], 0
    for line in text.split("\n"):
        if (_GLOO in line or open_lines) and _OF_GLOO.fullmatch(line):
            open_lines += line.count(_GLOO) - 1
        else:
            kept.append(line)
            open_lines = 0
    return "\n".join(kept)


_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_VALUE = re.compile(rf"{_NUMBER.pattern}|\b(?:nan|inf|True|False)\b")


def _near(old: str, new: str, relative: float, absolute: float) -> bool:
    x, y = float(old), float(new)
    limit = absolute + relative * max(abs(x), abs(y)) + max(_last_place(old), _last_place(new))
    return old == new or abs(x - y) <= limit


def _last_place(number: str) -> float:
    """The unit of the last digit that was printed; 0 for an integer."""
    digits, _, exponent = number.lower().partition("e")
    _, point, fraction = digits.partition(".")
    return float(10.0 ** (int(exponent or 0) - len(fraction))) if point or exponent else 0.0
