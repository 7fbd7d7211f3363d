"""A migration as the description of a pull request, in Markdown, and as a few lines of text."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardlift.cli.formats.places import place
from shardlift.migrate.changes import Change
from shardlift.migrate.leftovers import Leftover
from shardlift.migrate.results import FileResult, Migration
from shardlift.report.markdown import text
from shardlift.report.numbers import seconds
from shardlift.source.model import Kind
from shardlift.source.target import Pin

if TYPE_CHECKING:
    from shardlift.cli.verified_migration import VerifiedMigration

_WHAT = {
    Kind.SITE: "functions that are mapped over devices",
    Kind.VALUE: "places that pass pmap on",
    Kind.PLACEMENT: "places that put arrays on devices, or read them from there",
    Kind.READ: "reads of the first row of an output",
    Kind.NAME: "names and options that JAX has removed",
    Kind.CHECK_VMA: "functions that are checked with `check_vma=True`",
    Kind.DEVICE_AXIS: "places that follow from arrays without a device axis",
}
_SHORT = {
    Kind.SITE: "mapped",
    Kind.VALUE: "passing pmap on",
    Kind.PLACEMENT: "placing arrays",
    Kind.READ: "reading outputs",
    Kind.NAME: "with a removed name",
    Kind.CHECK_VMA: "check_vma",
    Kind.DEVICE_AXIS: "device axis",
}
_LISTED = 40  # as many places as a reader looks through


@dataclass(frozen=True)
class PullRequest:
    """What the description is made of."""

    migration: Migration
    raised: Sequence[tuple[Pin, str]] = ()
    leftovers: Sequence[Leftover] = ()
    verified: VerifiedMigration | None = None
    command: str = ""  # what --verify ran

    @property
    def changes(self) -> list[Change]:
        """Every place that is rewritten."""
        return [change for file in self.migration.files for change in file.rewritten]

    @property
    def kinds(self) -> Counter[Kind]:
        """How many places of each kind are rewritten."""
        return Counter(change.kind for change in self.changes)

    @property
    def new_files(self) -> list[FileResult]:
        """The modules of helpers that did not exist."""
        return [module for module in self.migration.helper_modules if not module.before]


def facts(request: PullRequest) -> list[str]:
    """What the summary says below its totals, where there is more than one thing to say."""
    kinds = request.kinds
    lines = []
    if len(kinds) > 1:
        counted = ", ".join(f"{kinds[kind]} {_SHORT[kind]}" for kind in Kind if kinds[kind])
        lines.append(f"Of these: {counted}.")
    sizes = [f"{file.path} ({_lines(file.after)} lines)" for file in request.new_files]
    return [*lines, f"New: {', '.join(sizes)}."] if sizes else lines


def markdown(request: PullRequest) -> str:
    """The description."""
    sections = (
        _changes(request),
        _purpose(request),
        _needs(request),
        _refused_lines(request),
        _verified_lines(request),
        _speed(request),
        _next(request),
    )
    title = "# Replace `jax.pmap` by `jax.jit(jax.shard_map(...))`"
    if request.kinds and request.kinds.keys() <= {Kind.NAME}:
        title = "# Replace names that JAX has removed"
    return (
        "\n\n".join([title, *("\n".join(section) for section in map(list, sections) if section)])
        + "\n"
    )


def _changes(request: PullRequest) -> Iterator[str]:
    own = [file for file in request.migration.files if file.changed]
    added, removed = (sum(counts) for counts in zip((0, 0), *map(_difference, own), strict=True))
    yield "## What changes"
    yield ""
    yield "| what | places |"
    yield "|---|---|"
    yield from (
        f"| {_WHAT[kind]} | {request.kinds[kind]} |" for kind in Kind if request.kinds[kind]
    )
    yield ""
    counts = f"{added} lines added, {removed} removed"
    yield f"{_count(len(own), 'file')}: {counts}, by `shardlift migrate`."
    for file in request.new_files:
        yield f"New: `{file.path}`, {_lines(file.after)} lines of plain JAX."
    if (line := request.migration.many_processes) is not None:
        yield f"Written for many processes, because of `{line.path}:{line.line}`: `{line.text}`."


def _purpose(request: PullRequest) -> Iterator[str]:
    yield "## What it is for"
    yield ""
    if request.kinds[Kind.NAME]:
        yield "- The removed names fail on current JAX; their replacements work."
    if request.kinds[Kind.SITE] or request.kinds[Kind.VALUE]:
        yield (
            "- Since JAX 0.8, `jax.pmap` is itself a layer over `jax.jit` and `jax.shard_map`, and "
            "JAX recommends the latter for code that matters. Here that layer is part of this "
            "project, and each mapped function can move to meshes and shardings on its own."
        )
    if request.kinds[Kind.PLACEMENT] or request.kinds[Kind.READ]:
        yield (
            "- Arrays are put on devices and read from them without the functions that JAX 0.10 "
            "removed, and without a gather over all devices."
        )
    yield "- Shapes stay as they are, and no numbers are meant to change."


def _needs(request: PullRequest) -> Iterator[str]:
    needed = request.migration.needed_jax
    yield "## What it needs"
    yield ""
    if needed is None:
        yield "The JAX that the project uses today."
        return
    number = ".".join(map(str, needed))
    if not request.migration.changes_program:
        yield f"JAX {number} or newer for the tests and notebooks; all other files: as before."
        return
    yield f"JAX {number} or newer."
    if request.raised:
        yield "These requirements have to be raised:"
        yield ""
    for pin, new in request.raised:
        yield f"- `{os.path.relpath(pin.path)}:{pin.line}`: `{pin.text}` → `{new}`"


def _refused_lines(request: PullRequest) -> Iterator[str]:
    files = request.migration.files
    refused = [
        f"- `{place(file.path, change.span)}`: {change.reason}"
        for file in files
        for change in (*file.refused, *file.skipped)
    ]
    refused += [f"- `{path}`, not read: {why}" for path, why in request.migration.unreadable]
    if refused:
        yield "## What stays as it is"
        yield ""
        yield from _shorten(refused)


def _verified_lines(request: PullRequest) -> Iterator[str]:
    verified = request.verified
    yield "## What was verified"
    yield ""
    if verified is None:
        yield (
            'Nothing was run. `shardlift migrate --write --verify "python train.py"` runs a '
            "program before and after, and compares every output of every mapped function."
        )
        return
    words = Counter(result.word for result in verified.results)
    counted = ", ".join(f"{number} {word}" for word, number in words.items())
    shown = counted or "no mapped function was called"
    yield f"`{request.command}`, run before and after: {shown}."
    others = [
        result for result in verified.results if result.word not in ("verified", "backed out")
    ]
    if others:
        yield ""
    yield from _shorten(
        f"- `{_at(result.change)}`: {result.word}: {result.why}" for result in others
    )


def _speed(request: PullRequest) -> Iterator[str]:
    if request.verified is None or not request.verified.speeds:
        return
    yield "## How fast it is"
    yield ""
    yield f"`{request.command}`: time per call until the outputs are ready, best of the runs."
    yield ""
    yield "| function | before | after | ratio |"
    yield "|---|---|---|---|"
    for name, before, after in request.verified.speeds:
        yield f"| {text(name)} | {seconds(before)} | {seconds(after)} | {after / before:.2f} |"


def _next(request: PullRequest) -> Iterator[str]:
    yield "## What to do next"
    yield ""
    if request.raised:
        yield "- Raise the requirements above."
    if any(file.refused for file in request.migration.files):
        yield "- Look at the places that stay as they are."
    yield "- Run the tests of the project on all devices."
    if request.verified is None or not request.verified.speeds:
        yield (
            "- Compare the speed: `shardlift run --record FILE` before and after, then "
            "`shardlift report BEFORE --compare AFTER`."
        )
    if request.leftovers:
        yield f"- Look at what still speaks of pmap, {_count(len(request.leftovers), 'line')}:"
    yield from _shorten(f"  - `{one.path}:{one.line}`: {one.text}" for one in request.leftovers)


def _shorten(lines: Iterable[str]) -> Iterator[str]:
    listed = list(lines)
    yield from listed[:_LISTED]
    if len(listed) > _LISTED:
        yield f"- and {len(listed) - _LISTED} more"


def _at(change: tuple[str, int, int, Kind]) -> str:
    path, line, column, _ = change
    return f"{path}:{line}:{column + 1}" if line else path


def _difference(file: FileResult) -> tuple[int, int]:
    lines = list(difflib.unified_diff(file.before.splitlines(), file.after.splitlines(), n=0))[2:]
    return sum(x.startswith("+") for x in lines), sum(x.startswith("-") for x in lines)


def _lines(text: str) -> int:
    return len(text.splitlines())


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
