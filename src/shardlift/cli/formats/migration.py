"""A migration as JSON, and what a command showed of its sites, as text."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from shardlift.cli.document import Item, document, item
from shardlift.cli.formats.diff import diff_of
from shardlift.cli.formats.places import place
from shardlift.cli.leftovers import find_leftovers
from shardlift.report.numbers import count
from shardlift.rewrite.changes import Change
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import FileResult, Migration, ProcessChoice
from shardlift.source.model import Finding, Span, Version

if TYPE_CHECKING:
    from shardlift.cli.formats.pull_request import PullRequest
    from shardlift.cli.verified_migration import PlaceResult, VerifiedMigration

_SHOWN = 3  # files with the same missing name
_SHOWN_LINES = 8
SCREEN = 12  # lines on what is left that a reader looks through
WORDS = ("verified", "not reached", "not compared", "partly compared", "backed out")


def results(verified: VerifiedMigration, command: str, verbose: bool) -> list[str]:
    """Lines on what the command showed; what was backed out is listed as refused already."""
    shown = [result for result in verified.results if result.word != "backed out"]
    lines = [
        f"{result.place}: {result.word}: {result.why}"
        for result in shown
        if verbose or result.word != "verified"
    ]
    counts = [f"{verified.count(word)} {word}" for word in WORDS if verified.count(word)]
    if not counts and verified.outcome is not None:  # no site was changed, what they get was
        verdicts = Counter(str(site.verdict) for site in verified.outcome.sites)
        counts = [f"{count(n, 'mapped function')} {word}" for word, n in verdicts.items()]
    runs = count(verified.runs, "run")
    said = f"`{command}`: {', '.join(counts) or 'nothing to verify'}, after {runs}."
    return [*lines, *verified.notes, said]


def processes(choice: ProcessChoice, quote: Callable[[str], str] = str) -> str:
    """For how many processes sites are written, and by which line that was decided."""
    number = "many processes" if choice.many else "one process"
    written = f"For {number}, sites keep jax.pmap" if choice.kept else f"Written for {number}"
    if choice.path:
        written += f" (as in {quote(choice.path)})"
    if choice.asked:
        return f"{written}, as --processes says"
    if (line := choice.line) is None:
        return f"{written}: no line joins a job of several or divides work between them"
    return f"{written}, because of {quote(f'{line.path}:{line.line}')}: {quote(line.text)}"


def readiness(
    migration: Migration, target: Version, quote: Callable[[str], str] = str
) -> list[str]:
    """Whether every name of JAX that modules need as they are imported exists on the target."""
    if not migration.missing and not migration.changed:
        return []
    if not migration.missing:
        return [f"Every import and name of JAX at module level exists on JAX {_number(target)}."]
    lines = [f"Does not run yet on JAX {_number(target)}:"]
    for one in migration.missing:
        files = f"{count(len(one.paths), 'file')} need{'s' * (len(one.paths) == 1)}"
        shown = ", ".join(map(quote, one.paths[:_SHOWN])) + ", ..." * (len(one.paths) > _SHOWN)
        lines.append(f"- {files} {quote(one.row.name)}: {one.row.answer} ({shown})")
    return lines


def _number(version: Version) -> str:
    return ".".join(map(str, version))


def by_reason(
    path: str,
    changes: Sequence[Change],
    said: str = "",
    code: Callable[[str], str] = str,
    text: Callable[[str], str] = str,
) -> list[str]:
    """One line for all places of a file that share a reason."""
    groups: dict[str, list[Change]] = {}
    for change in sorted(changes, key=lambda change: change.span):
        groups.setdefault(change.reason, []).append(change)
    lines: list[str] = []
    for reason, (first, *others) in groups.items():
        shown = numbers([_line(change.span) for change in others])
        also = f" (and {count(len(others), 'other place')}: {shown})"
        where = code(place(path, first.span))
        lines.append(f"{where}: {said}{text(reason)}{also if others else ''}")
    return lines


def refusals(
    files: Iterable[FileResult],
    said: str = "",
    code: Callable[[str], str] = str,
    text: Callable[[str], str] = str,
    most: int = SCREEN,
) -> list[str]:
    """What is left: a line per reason and file, or per reason alone if that is more than `most`."""
    changes = {file.path: file.refused for file in files}
    lines = [
        x for path, refused in changes.items() for x in by_reason(path, refused, said, code, text)
    ]
    if len(lines) <= most:
        return lines
    groups: dict[str, dict[str, list[Change]]] = {}
    for path, refused in changes.items():
        for change in refused:
            groups.setdefault(change.reason, {}).setdefault(path, []).append(change)
    lines = []
    for reason, by_path in groups.items():
        number = sum(map(len, by_path.values()))
        first = [code(place(path, found[0].span)) for path, found in by_path.items()][:_SHOWN]
        more = ", ..." if len(by_path) > _SHOWN else ""
        where = f"{count(number, 'place')} in {count(len(by_path), 'file')}"
        lines.append(f"{said}{text(reason)}: {where} ({', '.join(first)}{more})")
    return lines


def by_hand(
    findings: Sequence[Finding],
    code: Callable[[str], str] = str,
    text: Callable[[str], str] = str,
) -> list[str]:
    """What is broken and left to the reader, a line per rule and message."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.code, finding.message), []).append(finding)
    lines = [f"Broken, and left to you: {count(len(findings), 'place')}."] if findings else []
    for (rule, message), (first, *others) in groups.items():
        also = f" (and {count(len(others), 'other place')})" if others else ""
        where = code(place(first.path, first.span))
        lines.append(f"- {where}: {rule} {text(message)}{also}")
    return lines if len(lines) <= _SHOWN_LINES else [*lines[:_SHOWN_LINES], "- ..."]


def _line(span: Span) -> str:
    return str(span.line) if span.cell is None else f"cell {span.cell}:{span.line}"


def numbers(lines: Sequence[str]) -> str:
    """The first of some lines: `line 3, 7`, or of a notebook `cell 2:3, cell 4:1`."""
    shown = [*lines[:_SHOWN_LINES], *["..."] * (len(lines) > _SHOWN_LINES)]
    return f"{'line ' if ''.join(lines[:1]).isdigit() else ''}{', '.join(shown)}"


WAYS_ON = (
    "jax.pmap takes 2 to 2.8 times as long per call there as shardlift.pmap; --to shim writes that"
)


def machine(
    request: PullRequest, paths: Sequence[str], status: int, target: Version, written: bool
) -> str:
    """The document of `fix` or `migrate`."""
    migration, verified = request.migration, request.verified
    files = (*migration.helper_modules, *migration.files)
    more: dict[str, Any] = {"verify": _verify(verified)} if verified is not None else {}
    more["does_not_run"] = [
        {"name": missing.row.name, "paths": missing.paths, "answer": missing.row.answer}
        for missing in migration.missing
    ]
    return document(
        request.tool.split()[1],
        status,
        done=[item(c.kind, c.text, f.path, c.span) for f in files for c in f.rewritten],
        left=_left(request, files),
        next_commands=_next(request, paths, written),
        written=written,
        target_jax=".".join(map(str, target)),
        files=[{"path": f.path, "diff": "".join(diff_of(f))} for f in migration.changed],
        **more,
    )


def _left(request: PullRequest, files: Sequence[FileResult]) -> Iterator[Item]:
    for file in files:
        yield from (item("refused", c.reason, file.path, c.span) for c in file.refused)
        yield from (item("guarded", c.reason, file.path, c.span) for c in file.skipped)
    for path, why in request.migration.unreadable:
        yield item("unreadable", why, path)
    for pin, new in request.raised.left:
        yield item("requirement", pin.text, pin.path, line=pin.line, suggestion=new)
    for path, line, old in find_leftovers(request.migration):
        yield item("stale-text", old, path, line=line)


def _next(request: PullRequest, paths: Sequence[str], written: bool) -> Iterator[str]:
    if written or not request.migration.changed:
        yield f"shardlift check {shlex.join(paths)}"
        return
    goal = "" if request.goal in (Goal.FIX, Goal.SHARD_MAP) else f" --to {request.goal}"
    yield f"{request.tool}{goal} {shlex.join(paths)} --write"


def _verify(verified: VerifiedMigration) -> dict[str, Any]:
    """What was verified; `sites` as in the JSON of `shardlift verify`."""
    from shardlift.verify.verdict_text import site_trees

    outcome = verified.outcome
    return {
        "runs": verified.runs,
        "places": [_result(result) for result in verified.results],
        "notes": list(verified.notes),
        "sites": site_trees(outcome) if outcome else [],
    }


def _result(result: PlaceResult) -> dict[str, Any]:
    path, line, column, _ = result.change
    where = {"path": path, "line": line, "column": column + 1}
    return {**where, "verdict": result.word, "why": result.why}
