"""A migration as the description of a pull request, in Markdown, and as a few lines of text.

Whatever the repository says, names of files included, stands in code, where nothing is markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardlift.cli.formats.migration import by_hand, processes, readiness, refusals
from shardlift.cli.leftovers import find_leftovers
from shardlift.cli.requirements import Raised
from shardlift.report.markdown import code, text
from shardlift.report.numbers import count
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import Migration
from shardlift.source.model import Finding, Kind, Version
from shardlift.source.target import NEWEST

if TYPE_CHECKING:
    from shardlift.cli.verified_migration import VerifiedMigration

_PLACES = {
    Kind.SITE: "mapped",
    Kind.VALUE: "passing pmap on",
    Kind.PLACEMENT: "to place arrays",
    Kind.READ: "to read outputs",
    Kind.NAME: "with an old name",
    Kind.DEVICE_AXIS: "device axis",
}
_SUCCESSORS = {
    Goal.SHARD_MAP: "`jax.jit(jax.shard_map(...))`",
    Goal.GLOBAL: "`jax.jit(jax.shard_map(...))` of whole arrays",
    Goal.JIT: "`jax.jit` of the whole batch",
    Goal.SHIM: "`shardlift.pmap`",
}
_LISTED = 40  # as many places as a reader looks through


@dataclass(frozen=True)
class PullRequest:
    """What the description is made of."""

    migration: Migration
    raised: Raised = Raised()  # noqa: RUF009
    verified: VerifiedMigration | None = None
    command: str = ""  # what --verify ran
    goal: Goal = Goal.SHARD_MAP
    target: Version = NEWEST
    left_broken: tuple[Finding, ...] = ()  # what `check` calls broken: to be rewritten by hand

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

    @property
    def new_files(self) -> dict[str, str]:
        """The modules of helpers that did not exist, and how long they are."""
        modules = [module for module in self.migration.helper_modules if not module.before]
        return {m.path: count(len(m.after.splitlines()), "line") for m in modules}

    @property
    def counted(self) -> str:
        """How many places of each kind are rewritten, in words."""
        return ", ".join(f"{self.kinds[k]} {_PLACES[k]}" for k in Kind if self.kinds[k])


def facts(request: PullRequest) -> list[str]:
    """What the summary says below its totals, where there is more than one thing to say."""
    sizes = [f"{path} ({size})" for path, size in request.new_files.items()]
    return [
        *([f"Of these: {request.counted}."] if len(request.kinds) > 1 else []),
        *([f"New: {', '.join(sizes)}."] if sizes else []),
    ]


def markdown(request: PullRequest) -> str:
    """The description."""
    sections = {
        "Does it run?": readiness(request.migration, request.target, code),
        "What changes": _changes(request),
        "What it needs": _needs(request),
        "What stays as it is": [
            *by_hand(request.left_broken, code, text),
            *_refused(request.migration),
        ],
        "What was verified": _verified(request),
        "What to do next": _next(request),
    }
    parts = [f"# {_title(request)}"]
    for name, lines in sections.items():
        if listed := list(lines):
            parts.append("\n".join([f"## {name}", "", *listed]))
    return "\n\n".join(parts) + "\n"


def _title(request: PullRequest) -> str:
    if request.maps:
        return f"Replace `jax.pmap` by {_SUCCESSORS[request.goal]}"
    return "Repair what today's JAX removed or made slow" if request.kinds else "Nothing to change"


def _changes(request: PullRequest) -> Iterator[str]:
    files = sum(file.changed for file in request.migration.files)
    if request.kinds:
        yield f"`{request.tool}` rewrote places in {count(files, 'file')}: {request.counted}."
    else:
        yield "Nothing was rewritten."
    for path, size in request.new_files.items():
        yield f"New: {code(path)}, {size} of plain JAX."
    for choice in request.migration.processes:
        yield f"{processes(choice, code)}."
    if request.goal in (Goal.GLOBAL, Goal.JIT):
        yield "Arrays lose their axis of devices; numbers change by rounding at most."
    else:
        yield "Shapes stay as they are, and no numbers are meant to change."


def _needs(request: PullRequest) -> Iterator[str]:
    needed = request.migration.needed_jax
    number = ".".join(map(str, needed or ()))
    if needed is None:
        yield "The JAX that the project uses today."
    elif request.migration.needed_by_program is None:
        yield f"JAX {number} or newer for the tests and notebooks; all other files: as before."
    else:
        cause = f", for {', '.join(map(code, request.migration.needed_for))}"
        cause = cause if request.migration.needed_for else ""
        yield f"JAX {number} or newer{cause}.{' Raised:' if request.raised.lines else ''}"
        yield from (
            f"- {code(f'{pin.path}:{pin.line}')}: {code(pin.text)} → {code(new)}"
            for pin, new in request.raised.lines
        )


def _refused(migration: Migration) -> Iterator[str]:
    places = [f"- {line}" for line in refusals(migration.files, code=code, text=text)]
    unread = [f"- {code(path)}, not read: {text(why)}" for path, why in migration.unreadable]
    yield from _shorten([*places, *unread])


def _verified(request: PullRequest) -> Iterator[str]:
    verified = request.verified
    if verified is None:
        yield (
            f"Nothing was run. `{request.tool} --write --verify COMMAND` runs a program before and "
            "after, and compares every output of every mapped function."
        )
        return
    words = Counter(result.word for result in verified.results)
    counted = ", ".join(f"{number} {word}" for word, number in words.items())
    shown = counted or "no mapped function was called"
    yield f"{code(request.command)}, run before and after: {shown}."
    yield from _shorten(
        f"- {code(result.place)}: {result.word}: {text(result.why)}"
        for result in verified.results
        if result.word not in ("verified", "backed out")
    )


def _next(request: PullRequest) -> Iterator[str]:
    yield from (f"- {text(reason)}" for reason in request.raised.reasons)
    if any(file.refused for file in request.migration.files):
        yield "- Look at the places that stay as they are."
    timed = ", and time a step before and after" if request.kinds.keys() - {Kind.NAME} else ""
    yield f"- Run the tests of the project on all devices{timed}."
    if request.maps:
        yield "- Search tests and documents for `pmap`: a mock of it has no effect now."
    if leftovers := find_leftovers(request.migration):
        yield f"- Look at what still speaks of pmap, {count(len(leftovers), 'line')}:"
        yield from _shorten(
            f"  - {code(f'{path}:{line}')}: {code(old)}" for path, line, old in leftovers
        )


def _shorten(lines: Iterable[str]) -> Iterator[str]:
    listed = list(lines)
    yield from listed[:_LISTED]
    if len(listed) > _LISTED:
        yield f"- and {len(listed) - _LISTED} more"
