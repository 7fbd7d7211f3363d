"""``python -m tests.fuzz pairs --inputs 1000``: pairs of programs for `verify`.

A random training program in pmap is moved to shard_map: rightly,
with up to four harmless changes at once, or with one planted mistake on top of them. `verify` must
call the first ones the same, none of the others, and name the planted cause or none. The programs
run in this process: recording and comparing are those of the command.
"""

import contextlib
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import jax

from shardlift.verify.compare.captured_run import CapturedRun
from shardlift.verify.compare.judge import judge
from shardlift.verify.compare.verdicts import ProgramVerdict, Side
from shardlift.verify.verdict_text import advice
from tests.fuzz.verify_programs import HARMLESS, MISTAKES, moved, rewritten, right_program
from tests.verify.recording import before, program, taped

REPORT = sys.stdout  # the programs print elsewhere
# Differences that are their own cause.
_SHOWN = re.compile(r"^\d+ calls before, \d+ after|this output is only before")


class Judged(NamedTuple):
    """What `verify` makes of a pair: the exit status, the verdicts, and the causes."""

    status: int
    said: str
    causes: list[str]
    rounded: bool  # whether it says that rounding explains the differences


@dataclass(frozen=True)
class Pair:
    """A pair of programs."""

    name: str
    harmless: bool
    old: str
    new: str

    def judge(self, recorded: CapturedRun) -> Judged:
        """What `verify` makes of this pair."""
        after = taped(program(self.new), reference=recorded)
        sites = tuple(judge(recorded, after))
        verdict = ProgramVerdict(Side("before"), Side("after"), sites)
        said = ", ".join(f"{site.name} {site.verdict}" for site in sites) or "nothing"
        causes = [cause for site in sites for cause in site.causes]
        findings = [finding.what for site in sites for finding in site.findings]
        causes += [what for what in findings if _SHOWN.search(what)]
        rounded = any(text.startswith("Rounding explains") for text in advice(verdict))
        return Judged(verdict.status, said, causes, rounded)


def pairs_of(seed: int) -> Iterator[Pair]:
    """All pairs of one program."""
    rng = random.Random(seed)
    old = right_program(rng)
    for name, change in HARMLESS.items():
        new = None if name == "two sites" and old.phases else change(moved(old, rng), rng)
        if new is not None:
            yield Pair(name, True, old.text(), new.text())
    for _ in range(8):
        new, names = rewritten(moved(old, rng), rng)
        yield Pair(" + ".join(names), True, old.text(), new.text())
    for name, change in MISTAKES.items():
        around = moved(old, rng)
        if rng.random() < 0.5:
            around = rewritten(around, rng, 2)[0]
        new = change(around, rng)
        if new is not None and new.text() != around.text():
            yield Pair(name, False, old.text(), new.text())


# What the cause of a planted mistake must say. Each line that is printed has to fit.
_TIMES = r"[248]\.000 times too "
CAUSES = {
    r"reduction: (gradient|loss|scan)|phase: sum": rf"{_TIMES}large",
    r"reduction: (total|divided again)": rf"{_TIMES}small",
    r"scale: gradient|phase: scale": r"8\.000 times too large",
    r"key: one for all": r"inputs differ: key.*value of the first",
    r"key: the same": r"inputs differ: key",
    r"missing collective": r"devices disagree|for a value that varies",
    r"output: missing": r"this output is only before",
    r"dtype: (output|integers|gradient)": r"the dtype changed",
    r"copy: first": r"value of the first",
    r"copy: shape": r"shapes do not fit",
    r"host: not fed back": r"inputs differ: w",
    r"host: (fewer|more) calls": r"calls before",
    r"late difference": r"inputs differ: x",
    r"order: rows": r"inputs differ: x.*another order",
    r"order: ring": r"another order",
}
# What may be said of mistakes that have no cause which numbers can show.
TRUE = {
    r"reduction: gathered": r"8\.000 times too large",
    r"scale: step": r"2\.000 times too large: by a factor after the collective",
}


def cause_of(name: str, table: dict[str, str] = CAUSES) -> str | None:
    """What the cause of a planted mistake must say; None if it has no cause that can be known."""
    return next((words for names, words in table.items() if re.match(names, name)), None)


class Tally:
    """What was judged, and how."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.untrue: Counter[str] = Counter()

    def add(self, pair: Pair, seed: int, judged: Judged) -> None:
        """Count one pair, and print what is wrong."""
        status, said, causes, rounded = judged
        self.counts["right pairs" if pair.harmless else "mistakes"] += 1
        if pair.harmless and rounded:  # a print, for instance, makes XLA fuse other operations
            self.counts["right pairs that the compiler rounds in another way"] += 1
            return
        kind = "false alarm" if pair.harmless else "false identical"
        if (status == 0) != pair.harmless:
            self.counts[kind] += 1
            self.wrong[f"{kind}, {pair.name}"] += 1
            print(f"{kind}, {pair.name}, seed {seed}: {said} {causes}", file=REPORT, flush=True)
            if self.wrong.total() < 4:
                print(f"{pair.old}\n------\n{pair.new}", file=REPORT, flush=True)
        if not pair.harmless and status:
            self._add_causes(pair, seed, causes)

    def _add_causes(self, pair: Pair, seed: int, causes: list[str]) -> None:
        wanted = cause_of(pair.name)
        words = wanted or cause_of(pair.name, TRUE) or "$^"
        kind = "right" if causes else "no"
        if not all(re.search(words, cause) for cause in causes):
            kind = "another"
        if wanted is None and kind != "another":
            self.counts["mistakes whose cause numbers cannot show"] += 1
            return
        self.counts[f"{kind} cause"] += 1
        if kind != "right":
            self.untrue[f"{kind} cause, {pair.name}"] += 1
            if self.untrue[f"{kind} cause, {pair.name}"] < 3:
                print(f"{kind} cause, {pair.name}, seed {seed}: {causes}", file=REPORT, flush=True)

    def summary(self) -> str:
        """All counts."""
        lines = [f"{number:6} {name}" for name, number in sorted(self.counts.items())]
        for counts in (self.wrong, self.untrue):
            lines += [f"{number:6} {name}" for name, number in counts.most_common(40)]
        return "\n".join(lines)


def work(count: int, seed: int) -> tuple[str, bool]:
    """Compare pairs; their counts, and whether a verdict is wrong, or a cause is another one."""
    tally = Tally()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        while sum(tally.counts[name] for name in ("right pairs", "mistakes")) < count:
            recorded = None
            for pair in pairs_of(seed):
                try:
                    recorded = recorded or before(program(pair.old))
                    tally.add(pair, seed, pair.judge(recorded))
                except Exception:  # of the generator, or of verify
                    print(f"seed {seed}, {pair.name}\n{pair.old}\n------\n{pair.new}", file=REPORT)
                    raise
            seed += 1
            if seed % 20 == 0:  # the functions of these programs are gone, what was compiled is not
                jax.clear_caches()
    bad = ("false alarm", "false identical", "another cause")
    summary = f"JAX {jax.__version__}\n{tally.summary()}"
    return summary, any(tally.counts[name] for name in bad)
