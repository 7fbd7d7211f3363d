"""What came of a migration in words, by section: for a terminal and for a pull request."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from shardlift.cli.formats.places import place
from shardlift.cli.leftovers import find_leftovers
from shardlift.cli.requirements import needs
from shardlift.report.markdown import code
from shardlift.report.numbers import count
from shardlift.rewrite.changes import Change
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import FileResult, Migration, ProcessChoice
from shardlift.source.model import Finding, Kind, Span, Version
from shardlift.source.target import NEWEST, Pin

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
_SHOWN = 3  # files with the same missing name, reason or stale text
_SHOWN_LINES = 8
_SCREEN = 12  # lines on what is left that a reader looks through
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
    pins: Sequence[Pin] = ()  # the requirements of the project
    too_old: Sequence[Pin] = ()  # those that let in a JAX which is too old for the new text
    left_broken: Sequence[Finding] = ()  # what `check` calls broken: to be rewritten by hand
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
            "What it needs": needs(migration, self.pins, self.too_old, quoting.code),
            "What stays as it is": [
                *_refusals(migration.files, quoting, sys.maxsize if verbose else _SCREEN),
                *_by_hand(self.left_broken, quoting),
                *(
                    f"{quoting.code(path)}: not looked at: {quoting.text(why)}"
                    for path, why in migration.unreadable
                ),
                *_stale_lines(migration, quoting.code, verbose),
            ],
            "What was verified": _results(self.verified, self.command, quoting, verbose),
        }


def _readiness(migration: Migration, target: Version, quote: Callable[[str], str]) -> list[str]:
    """Whether every name of JAX that modules need as they are imported exists on the target."""
    jax = f"JAX {'.'.join(map(str, target))}"
    if not migration.missing:
        said = f"Every import and name of JAX at module level exists on {jax}."
        return [said] if migration.changed else []
    lines = [f"Does not run yet on {jax}:"]
    for one in migration.missing:
        files = f"{count(len(one.paths), 'file')} need{'s' * (len(one.paths) == 1)}"
        lines.append(
            f"- {files} {quote(one.row.name)}: {one.row.answer} ({_few(one.paths, quote)})"
        )
    return lines


def _few(places: Iterable[str], quote: Callable[[str], str]) -> str:
    listed = list(places)
    return ", ".join(map(quote, listed[:_SHOWN])) + ", ..." * (len(listed) > _SHOWN)


def _totals(report: RewriteReport, quote: Callable[[str], str]) -> Iterator[str]:
    """How many places and files, of which kinds, and the modules of helpers that are new."""
    files, kinds = report.migration.files, report.kinds
    refused = sum(len(file.refused) for file in files)
    skipped = sum(len(file.skipped) for file in files)
    unreadable = len(report.migration.unreadable)
    verb = "would be" if not report.written else "was" if kinds.total() == 1 else "were"
    changed = count(sum(file.changed for file in files), "file")
    parts = [
        f"{count(kinds.total(), 'place')} {verb} rewritten in {changed}"
        if kinds
        else f"Nothing to rewrite in {count(report.migration.looked_at, 'file')}",
        f"{refused} left as {'it is' if refused == 1 else 'they are'}" if refused else "",
        f"{skipped} skipped, guarded by the program itself" if skipped else "",
        f"{count(unreadable, 'file')} not looked at" if unreadable else "",
    ]
    yield f"{', '.join(filter(None, parts))}."
    if len(kinds) > 1:
        yield f"Of these: {', '.join(f'{kinds[k]} {_KINDS[k]}' for k in Kind if kinds[k])}."
    new = [module for module in report.migration.helper_modules if not module.before]
    if new:
        sizes = ((quote(m.path), count(len(m.after.splitlines()), "line")) for m in new)
        yield f"New: {', '.join(f'{path} ({size})' for path, size in sizes)}."


def _each_change(migration: Migration, quoting: Quoting) -> Iterator[str]:
    for file in migration.files:
        for change in file.rewritten:
            where = quoting.code(place(file.path, change.span))
            yield f"{where}: rewritten: {quoting.text(change.text)}"
        yield from _by_reason(file.path, file.skipped, "skipped", quoting)


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


def _by_reason(path: str, changes: Sequence[Change], said: str, quoting: Quoting) -> Iterator[str]:
    """One line for all places of a file that share a reason."""
    groups: dict[str, list[Change]] = {}
    for change in sorted(changes, key=lambda change: change.span):
        groups.setdefault(change.reason, []).append(change)
    for reason, (first, *others) in groups.items():
        lines = _line_numbers([_line(change.span) for change in others])
        also = f" (and {count(len(others), 'other place')}: {lines})" if others else ""
        where = quoting.code(place(path, first.span))
        yield f"{where}: {said}: {quoting.text(reason)}{also}"


def _refusals(files: Sequence[FileResult], quoting: Quoting, most: int) -> list[str]:
    """What is left: a line per reason and file, or per reason alone if that is more than `most`."""
    said = "left as it is"
    lines = [line for file in files for line in _by_reason(file.path, file.refused, said, quoting)]
    if len(lines) <= most:
        return lines
    groups: dict[str, list[tuple[str, Change]]] = {}
    for file in files:
        for change in sorted(file.refused, key=lambda change: change.span):
            groups.setdefault(change.reason, []).append((file.path, change))
    lines = []
    for reason, places in groups.items():
        first = {path: place(path, change.span) for path, change in reversed(places)}
        where = f"{count(len(places), 'place')} in {count(len(first), 'file')}"
        shown = _few(reversed(first.values()), quoting.code)
        lines.append(f"{said}: {quoting.text(reason)}: {where} ({shown})")
    return lines


def _by_hand(findings: Sequence[Finding], quoting: Quoting) -> list[str]:
    """What is broken and left to the reader, a line per rule and message."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.code, finding.message), []).append(finding)
    lines = [f"Broken, and left to you: {count(len(findings), 'place')}."] if findings else []
    for (rule, message), (first, *others) in groups.items():
        also = f" (and {count(len(others), 'other place')})" if others else ""
        where = quoting.code(place(first.path, first.span))
        lines.append(f"- {where}: {rule} {quoting.text(message)}{also}")
    return lines if len(lines) <= _SHOWN_LINES else [*lines[:_SHOWN_LINES], "- ..."]


def _line(span: Span) -> str:
    return str(span.line) if span.cell is None else f"cell {span.cell}:{span.line}"


def _line_numbers(lines: Sequence[str]) -> str:
    """The first of some lines: `line 3, 7`, or of a notebook `cell 2:3, cell 4:1`."""
    shown = [*lines[:_SHOWN_LINES], *["..."] * (len(lines) > _SHOWN_LINES)]
    return f"{'line ' if ''.join(lines[:1]).isdigit() else ''}{', '.join(shown)}"


def _stale_lines(migration: Migration, quote: Callable[[str], str], verbose: bool) -> list[str]:
    """The comments and strings that still speak of pmap: a line per file, or one for many."""
    by_file: dict[str, list[str]] = {}
    for path, line, _ in find_leftovers(migration):
        by_file.setdefault(path, []).append(str(line))
    stale = "comments or strings still speak of pmap"
    if len(by_file) > _SHOWN and not verbose:
        first = (f"{path}:{lines[0]}" for path, lines in by_file.items())
        number = count(sum(map(len, by_file.values())), "line")
        return [f"{stale}: {number} in {len(by_file)} files ({_few(first, quote)})"]
    return [f"{quote(path)}: {stale}: {_line_numbers(lines)}" for path, lines in by_file.items()]


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
