"""What came of a migration in words, by section: for a terminal and for a pull request."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from shardlift.check.rules import all_rules
from shardlift.cli.formats.places import place
from shardlift.cli.requirements import Requirements, needs
from shardlift.report.markdown import code
from shardlift.report.numbers import count
from shardlift.rewrite.changes import Change
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import FileResult, Migration, ProcessChoice
from shardlift.source.edits import split_lines
from shardlift.source.model import Finding, Kind, Version, dotted
from shardlift.source.project import is_test
from shardlift.source.scopes import grouped
from shardlift.source.target import NEWEST
from shardlift.source.text import mask_magics

if TYPE_CHECKING:
    from shardlift.cli.verified_migration import VerifiedMigration

_KINDS = {
    Kind.SITE: "mapped",
    Kind.VALUE: "passing pmap on",
    Kind.PLACEMENT: "to place arrays",
    Kind.READ: "to read outputs",
    Kind.NAME: "with an old name",
    Kind.DEVICE_AXIS: "device axis",
}
_SHOWN = 5  # places with the same missing name, reason or stale text
_LONGEST = 200  # characters of a line
_PMAP = re.compile(r"\bpmap(?:ped|ping|s)?\b", re.I)
# A shape in a comment whose first axis is the devices: `(n_devices, batch, ...)`.
_DEVICE_AXIS = re.compile(r"#.*[(\[]\s*(?:n|num|number_of|local)\w*devices?\w*\s*,", re.I)
_WORDS = ("verified", "not reached", "not compared", "partly compared", "backed out")


class Quoting(NamedTuple):
    """How words of the repository are written: unchanged, or so that nothing in them is markup."""

    code: Callable[[str], str] = str
    text: Callable[[str], str] = str


PLAIN = Quoting()


@dataclass(frozen=True)
class RewriteReport:
    """What `fix` or `migrate` made of a project, and what is known of it."""

    migration: Migration
    goal: Goal = Goal.SHARD_MAP
    target: Version = NEWEST
    written: bool = False
    requirements: Requirements = field(default_factory=Requirements)
    left_by_hand: Sequence[Finding] = ()  # what `check` calls broken or slow, and nothing rewrites
    verified: VerifiedMigration | None = None
    command: str = ""  # what --verify ran

    @property
    def tool(self) -> str:
        """The command that rewrote the project."""
        return "shardlift fix" if self.goal is Goal.FIX else "shardlift migrate"

    @property
    def kinds(self) -> Counter[Kind]:
        """How many places of each kind are rewritten."""
        return Counter(change.kind for file in self.migration.files for change in file.rewritten)

    @property
    def maps(self) -> bool:
        """Whether something else maps functions now."""
        return self.goal is not Goal.FIX and bool(self.kinds.keys() & {Kind.SITE, Kind.VALUE})

    def sections(self, quoting: Quoting = PLAIN, verbose: bool = False) -> dict[str, list[str]]:
        """All there is to say; a line that begins with `-` belongs to the one above."""
        migration = self.migration
        return {
            "Does it run?": _readiness(migration, self.target, quoting.code),
            "What changes": [
                *_totals(self, quoting.code),
                *(_each_change(migration, quoting) if verbose else ()),
                *(_processes(choice, quoting.code) for choice in migration.processes),
            ],
            "What it needs": [*needs(migration, self.requirements, quoting.code)],
            "What stays as it is": [*_left(self, quoting, verbose)],
            "What was verified": _results(self.verified, self.command, quoting, verbose),
        }


def _readiness(migration: Migration, target: Version, quote: Callable[[str], str]) -> list[str]:
    """Whether every name of JAX that modules need as they are imported exists on the target."""
    jax = f"JAX {dotted(target)}"
    if not migration.missing:
        said = f"Every public import and name of JAX at module level exists on {jax}"
        said += ", in the files that could be read" if migration.unreadable else ""
        later = _few(migration.missing_in_functions, quote)
        said += f", but functions use {later}." if later else "."
        return [said] if migration.changed else []
    lines = [f"Does not run yet on {jax}:"]
    if migration.modules_run:
        kinds = Counter(map(_kind_of, sorted(migration.stopped)))
        listed = " and ".join(count(number, kind) for kind, number in kinds.items())
        lines = [f"Modules can be imported on {jax}, but {listed} cannot run yet:"]
    for one in migration.missing:
        files = f"{count(len(one.paths), 'file')} need{'s' * (len(one.paths) == 1)}"
        lines.append(
            f"- {files} {quote(one.row.name)}: {one.row.answer} ({_few(one.paths, quote)})"
        )
    if migration.changed and migration.needed_by_program is None:
        lines.append("What is written runs with the JAX that the program has now, too.")
    return lines


def _kind_of(path: str) -> str:
    return "notebook" if path.endswith(".ipynb") else "test" if is_test(path) else "script"


def _few(places: Sequence[str], quote: Callable[[str], str], most: int = _SHOWN) -> str:
    return ", ".join(map(quote, places[:most])) + ", ..." * (len(places) > most)


def _totals(report: RewriteReport, quote: Callable[[str], str]) -> Iterator[str]:
    """How many places and files, of which kinds, and the modules of helpers that are new."""
    files, kinds = report.migration.files, report.kinds
    refused = sum(len(file.refused) for file in files)
    skipped = sum(len(file.skipped) for file in files)
    unreadable = len(report.migration.unreadable)
    verb = "would be" if not report.written else "was" if kinds.total() == 1 else "were"
    changed = count(sum(file.changed for file in files), "file")
    only = "".join(f" ({_KINDS[kind]})" for kind in kinds if len(kinds) == 1)
    parts = [
        f"{count(kinds.total(), 'place')}{only} {verb} rewritten in {changed}"
        if kinds
        else f"Nothing to rewrite in {count(report.migration.looked_at, 'file')}",
        f"{refused} left as {'it is' if refused == 1 else 'they are'}" if refused else "",
        f"{skipped} skipped, guarded by the program itself" if skipped else "",
        f"{count(unreadable, 'file')} not looked at" if unreadable else "",
    ]
    yield f"{', '.join(filter(None, parts))}."
    if len(kinds) > 1:
        yield f"Of these: {', '.join(f'{kinds[k]} {_KINDS[k]}' for k in Kind if kinds[k])}."
    modules = report.migration.helper_modules
    new = [module for module in modules if not module.before]
    if new:
        sizes = ((quote(m.path), count(len(m.after.splitlines()), "line")) for m in new)
        yield f"New: {', '.join(f'{path} ({size})' for path, size in sizes)}."
    homes = {file.home.path or "" for file in files if file.changed and file.helpers}
    told = {module.path for module in modules if module in new or not module.changed}
    if kept := sorted(homes - {"", *told}):
        yield f"Helpers were added to {', '.join(map(quote, kept))}."


def _each_change(migration: Migration, quoting: Quoting) -> Iterator[str]:
    for file in migration.files:
        for change in file.rewritten:
            where = quoting.code(place(file.path, change.span))
            yield f"{where}: rewritten: {quoting.text(change.text)}"


def _processes(choice: ProcessChoice, quote: Callable[[str], str]) -> str:
    """For how many processes sites are written, and by which line that was decided."""
    number = "many processes" if choice.many else "one process"
    written = f"For {number}, sites keep jax.pmap" if choice.kept else f"Written for {number}"
    if choice.path:
        written += f" (as in {quote(choice.path)})"
    if choice.asked:
        return f"{written}, as --processes says."
    if (line := choice.line) is None:
        return f"{written}: no line joins a job of several or divides work between them."
    return f"{written}, because of {quote(f'{line.path}:{line.line}')}: {quote(line.text)}."


def _by_reason(
    said: str, places: Iterable[tuple[str, str]], quoting: Quoting, most: int = _SHOWN
) -> Iterator[str]:
    """One line for all places, each with its reason, that share one."""
    groups: dict[str, list[str]] = {}
    for where, reason in places:
        groups.setdefault(reason, []).append(where)
    for reason, (first, *others) in groups.items():
        shown = f"{count(len(others), 'other place')}: {_few(others, quoting.code, most)}"
        also = f" (and {shown})" if others else ""
        yield f"{quoting.code(first)}: {said}{quoting.text(reason)}{also}"


def _places_of(
    migration: Migration, changes: Callable[[FileResult], Sequence[Change]]
) -> Iterator[tuple[str, str]]:
    """The places of some changes of each file, in order, with their reasons."""
    for file in migration.files:
        for change in sorted(changes(file), key=lambda change: change.span):
            yield place(file.path, change.span), change.reason


def _left(report: RewriteReport, quoting: Quoting, verbose: bool) -> Iterator[str]:
    """What is not rewritten and why, what is broken, and what still speaks of pmap."""
    migration, most = report.migration, sys.maxsize if verbose else _SHOWN
    refused = _places_of(migration, lambda file: file.refused)
    yield from _by_reason("left as it is: ", refused, quoting, most)
    if verbose:
        skipped = _places_of(migration, lambda file: file.skipped)
        yield from _by_reason("skipped: ", skipped, quoting, most)
    levels = grouped(report.left_by_hand, lambda one: all_rules()[one.code].level)
    for level, left in sorted(levels.items()):  # the worst first
        yield f"{level.capitalize()}, and left to you: {count(len(left), 'place')}."
        told = (
            (place(f.path, f.span), f"{f.code} {f.message}. {all_rules()[f.code].advice}")
            for f in left
        )
        yield from (f"- {line}" for line in _by_reason("", told, quoting, most))
    for path, why in migration.unreadable:
        yield f"{quoting.code(path)}: not looked at: {quoting.text(why)}"
    if stale := [f"{path}:{line}" for path, line, _ in find_leftovers(migration)]:
        shown = _few(stale, quoting.code, most)
        yield f"Comments or strings still speak of pmap in {count(len(stale), 'line')}: {shown}"


def _results(
    verified: VerifiedMigration | None, command: str, quoting: Quoting, verbose: bool
) -> list[str]:
    """What a run of the command showed; what was backed out is listed as refused already."""
    if verified is None:
        return []
    hidden = ("backed out",) if verbose else ("backed out", "verified")
    lines = [
        f"{quoting.code(result.place)}: {result.word}: {quoting.text(result.why)}"
        for result in verified.results
        if result.word not in hidden
    ]
    counts = [f"{verified.count(word)} {word}" for word in _WORDS if verified.count(word)]
    if not counts and verified.outcome is not None:  # no site was changed, what they get was
        verdicts = Counter(str(site.verdict) for site in verified.outcome.sites)
        counts = [f"{count(n, 'mapped function')} {word}" for word, n in verdicts.items()]
    shown = ", ".join(counts) or "nothing to verify"
    notes = map(quoting.text, verified.notes)
    return [*lines, *notes, f"{code(command)}: {shown}, after {count(verified.runs, 'run')}."]


class Leftover(NamedTuple):
    """A line of a changed file, for a person to read."""

    path: str
    line: int
    text: str


def find_leftovers(migration: Migration) -> list[Leftover]:
    """What comments and strings still say of pmap, or of an axis that was removed."""
    changed = [file for file in migration.files if file.rewritten and file.path.endswith(".py")]
    kinds = {change.kind for file in migration.files for change in file.rewritten}
    if not kinds & {Kind.SITE, Kind.VALUE, Kind.DEVICE_AXIS}:
        return []
    return [leftover for file in changed for leftover in _leftovers_in(file)]


def _leftovers_in(file: FileResult) -> Iterator[Leftover]:
    kinds = {change.kind for change in file.rewritten}
    old = set(split_lines(file.before))  # not the lines of a helper that is new
    lines = split_lines(file.after)
    stale = [_PMAP, _DEVICE_AXIS] if Kind.DEVICE_AXIS in kinds else [_PMAP]
    tokens = tokenize.generate_tokens(io.StringIO(mask_magics(file.after), newline="").readline)
    numbers = {
        token.start[0] + token.string.count("\n", 0, match.start())
        for token in tokens
        if token.type != tokenize.NAME
        for match in chain.from_iterable(words.finditer(token.string) for words in stale)
    }
    for number in sorted(number for number in numbers if lines[number - 1] in old):
        yield Leftover(file.path, number, lines[number - 1].strip()[:_LONGEST])
