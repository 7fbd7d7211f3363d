"""Compares what two programs print, line by line, with times and the like masked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from shardlift.verify.compare.array_distance import Tolerance
from shardlift.verify.program_output import ProgramOutput

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


@dataclass(frozen=True)
class OutputComparison:
    """Compares output; ``tolerance`` is the one of numbers in the text."""

    tolerance: Tolerance = field(default_factory=Tolerance)

    def differences(
        self,
        before: ProgramOutput,
        after: ProgramOutput,
        unstable: Collection[tuple[str, int | None]] = (),
    ) -> list[Difference]:
        """All differences but those at ``unstable`` places, such as `Difference.place`."""
        return [
            difference
            for name in sorted(before.streams.keys() | after.streams.keys())
            for difference in self._texts(
                name, *(own_text(name, side.streams.get(name, "")) for side in (before, after))
            )
            if not {difference.place, (name, None)} & {*unstable}
        ]

    def _texts(self, where: str, before: str, after: str) -> Iterator[Difference]:
        left, right = shown_lines(before), shown_lines(after)
        for number, (old, new) in enumerate(zip_longest(left, right)):
            if old is not None and new is not None and self._same(old, new):
                continue
            # If one side has more lines, everything after the first of them is out of step.
            if len(left) != len(right):
                yield Difference(where, None, old, new, self._other_numbers(left, right))
                return
            yield Difference(where, number, old, new, _same_words(old or "", new or ""))

    def _other_numbers(self, left: Sequence[str], right: Sequence[str]) -> bool:
        """Whether a line has other numbers, where one side has more lines."""
        masked, other = ([mask(line) for line in lines] for lines in (left, right))
        steps = SequenceMatcher(None, masked, other, autojunk=False).get_opcodes()
        return any(
            _same_words(old, new) and not self._same(old, new)
            for step, i, j, k, n in steps
            if step == "replace"
            for old in left[i:j]
            for new in right[k:n]
        )

    def _same(self, before: str, after: str) -> bool:
        if before == after:
            return True
        before, after = mask(before), mask(after)
        return before == after or _close(before, after, self.tolerance)

    def masked(self, output: ProgramOutput) -> Counter[str]:
        """How often each mask matched."""
        counts: Counter[str] = Counter()
        for stream in output.streams.items():
            mask(own_text(*stream), counts)
        return +counts


def mask(text: str, counts: Counter[str] | None = None) -> str:
    """The text with the names of masks in place of what they match, which is counted."""
    for name, pattern in MASKS:
        text, count = pattern.subn(f"<{name}>", text)
        if counts is not None:
            counts[name] += count
    return text


def shown_lines(text: str) -> list[str]:
    """The lines as a terminal shows them: what follows a carriage return replaces the line."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines]


def _clip(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")


def own_text(stream: str, text: str) -> str:
    """A stream without what libraries write there."""
    return own_lines(text) if stream.startswith("stderr") else without_gloo(text)


# ---- standard output

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


# ---- standard error

_LOG = re.compile(
    r"[IWEF]\d{4} \d\d:|WARNING: All log messages before absl|shardlift: |-{20}$|"
    r"For simplicity, JAX has removed its internal frames"
)
_WARNING = re.compile(r"(?P<file>.+):\d+: (?P<category>\w*Warning): ")
_OF_LIBRARY = re.compile(r"(^|/)(site|dist)-packages/|/lib/python3|<frozen |^sys$")
_ABOUT_NAMES = ("DeprecationWarning", "FutureWarning", "PendingDeprecationWarning")
_ERROR = re.compile(r"(?P<type>(?:\w+\.)*\w+)(?:: |$)")


def own_lines(text: str) -> str:
    """Standard error without what libraries write there.

    These are log lines of XLA, warnings of installed packages and about names that go away, and of
    tracebacks everything but the types of the errors: the rest names functions of JAX.
    """
    kept: list[str] = []
    skip_source, traceback = False, False
    for line in text.split("\n"):
        warning = _WARNING.match(line)
        if traceback:
            if line.startswith(" ") or not line.strip():
                continue
            error = _ERROR.match(line)
            kept.append(error["type"] if error else line)
            traceback = False
        elif line.startswith("Traceback (most recent call last)"):
            traceback = True
        elif skip_source and line.startswith("  "):
            skip_source = False
        elif warning and _is_of_library(warning):
            skip_source = True
        elif not _LOG.match(line):
            kept.append(line)
            skip_source = False
    return "\n".join(kept)


def _is_of_library(warning: re.Match[str]) -> bool:
    return warning["category"] in _ABOUT_NAMES or bool(_OF_LIBRARY.search(warning["file"]))


# ---- numbers

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_VALUE = re.compile(rf"{_NUMBER.pattern}|\b(?:nan|inf|True|False)\b")


def _same_words(before: str, after: str) -> bool:
    """Whether two lines are the same but for their numbers and truth values."""
    return bool(_VALUE.sub("#", before) == _VALUE.sub("#", after))


def _close(before: str, after: str, tolerance: Tolerance) -> bool:
    """Whether two lines differ only in numbers that are within the tolerance."""
    relative = tolerance.rtol + max(tolerance.ulps, tolerance.rounding) * 2.0**-23
    if not (relative or tolerance.atol) or _NUMBER.sub("#", before) != _NUMBER.sub("#", after):
        return False
    pairs = zip(_NUMBER.findall(before), _NUMBER.findall(after), strict=True)
    return all(_near(old, new, relative, tolerance.atol) for old, new in pairs)


def _near(old: str, new: str, relative: float, absolute: float) -> bool:
    x, y = float(old), float(new)
    limit = absolute + relative * max(abs(x), abs(y)) + max(_last_place(old), _last_place(new))
    return old == new or abs(x - y) <= limit


def _last_place(number: str) -> float:
    """The unit of the last digit that was printed; 0 for an integer."""
    digits, _, exponent = number.lower().partition("e")
    _, point, fraction = digits.partition(".")
    return float(10.0 ** (int(exponent or 0) - len(fraction))) if point or exponent else 0.0
