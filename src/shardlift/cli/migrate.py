"""`shardlift migrate`: pmap rewritten to jax.jit(jax.shard_map(...)), as a diff or in place."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from shardlift.cli import writing
from shardlift.cli.files import find_files
from shardlift.codemod.migration.engine import FileResult, Migration, migrate
from shardlift.codemod.migration.rewrite import Goal
from shardlift.facts import Capture, CaptureError, read

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


_EXAMPLES = """\b
Examples:
  shardlift migrate src/ --write
  shardlift run --record run.json train.py
  shardlift migrate src/ --to global --facts run.json
"""


@click.command("migrate", epilog=_EXAMPLES)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--to",
    type=click.Choice([goal.value for goal in Goal]),
    default=Goal.SHARD_MAP.value,
    show_default=True,
    help="shard_map: plain JAX, nothing of shardlift left. global: and no device axis where every "
    "array could be followed. shim: shardlift.pmap, the least change.",
)
@click.option(
    "--facts",
    metavar="FILE",
    help="For --to global: what `shardlift run --record FILE` saw, and proved of the outputs.",
)
@click.option(
    "--strict-vma",
    is_flag=True,
    help="For --to global with --facts: check_vma=True, gradients kept by jax.lax.pcast.",
)
@click.option("--diff/--write", "diff", default=True, help="Show the change (default), or make it.")
@click.option("--allow-dirty", is_flag=True, help="Write although git has uncommitted changes.")
@click.option("--quiet", "-q", is_flag=True, help="No summary; with --write, nothing at all.")
@click.option("--verbose", "-v", is_flag=True, help="Also each place that was rewritten.")
def migrate_command(
    paths: tuple[str, ...],
    to: str,
    facts: str | None,
    strict_vma: bool,
    diff: bool,
    allow_dirty: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Rewrite pmap to jax.jit(jax.shard_map(...)), with the same shapes and the same numbers.

    Reads .py and .ipynb under each PATH (the current folder if none is given) and runs nothing
    of them. What cannot be rewritten is left as it is and listed with the reason.

    Exits 0 if there was nothing to do or all of it was written, 1 if there is a diff to look at
    or something was refused, 2 if a file could not be read or written.
    """
    paths = paths or (".",)
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        _stop(f"no such file or folder: {', '.join(missing)}")
    files = list(find_files(paths))
    if not files:
        _stop(f"no .py or .ipynb file under {', '.join(paths)}")
    contents = writing.Contents()
    _check_strict(Goal(to), facts, strict_vma, diff)
    capture = _capture(facts, Goal(to))
    migration = migrate(files, contents.read, os.path.exists, Goal(to), capture, strict_vma)
    if diff:
        _show(migration)
    else:
        _write(migration, contents, allow_dirty)
    if not quiet:
        _summary(migration, diff, verbose)
    sys.exit(_status(migration, diff))


def _check_strict(
    goal: Goal, facts: str | None, strict: bool, diff: bool, verify: str = ""
) -> None:
    """check_vma changes gradients: it is kept only where the numbers were compared."""
    if not strict:
        return
    if goal is not Goal.GLOBAL or facts is None:
        _stop("--strict-vma goes with --to global and --facts FILE")
    if not diff and not verify:
        _stop(
            "--strict-vma can change gradients, and is written only where they were compared: "
            'say --verify "COMMAND" as well, or look at the diff'
        )


def _capture(path: str | None, goal: Goal) -> Capture | None:
    if path is None:
        return None
    if goal is not Goal.GLOBAL:
        _stop("--facts is for --to global")
    try:
        return read(path)
    except (OSError, CaptureError) as error:
        _stop(str(error))
    return None


def _status(migration: Migration, diff: bool) -> int:
    if any(file.refused for file in migration.files) or (diff and migration.changed):
        return 1
    return 2 if migration.unreadable else 0


def _show(migration: Migration) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for file in migration.changed:
        for line in diff_of(file):
            console.print(Text(line, style=_COLOURS.get(line[:1], "")), end="")


def diff_of(file: FileResult) -> list[str]:
    """The change of one file as a unified diff."""
    before = file.before.splitlines(keepends=True)
    after = file.after.splitlines(keepends=True)
    old = f"a/{file.path}" if before else "/dev/null"
    lines = list(difflib.unified_diff(before, after, old, f"b/{file.path}"))
    return [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    ]


def _write(migration: Migration, contents: writing.Contents, allow_dirty: bool) -> None:
    changed = [file.path for file in migration.changed]
    if changed and not allow_dirty:
        dirty = writing.dirty_files(changed)
        if dirty:
            listed = "".join(f"\n  {path}" for path in dirty[:10])
            more = f"\n  and {len(dirty) - 10} more" if len(dirty) > 10 else ""
            _stop(
                f"git has uncommitted changes in files that would be written:{listed}{more}\n"
                "Commit or stash them, or say --allow-dirty."
            )
    for file in migration.changed:
        try:
            contents.write(file.path, file.after)
        except writing.WriteError as error:
            _stop(str(error))


def _summary(migration: Migration, diff: bool, verbose: bool) -> None:
    for file in migration.files:
        for place in file.rewritten if verbose else ():
            click.echo(f"{_where(file, place.span)}: rewritten: {place.text}", err=diff)
        for place in file.refused:
            click.echo(f"{_where(file, place.span)}: left as it is: {place.text}", err=diff)
    for path, reason in migration.unreadable:
        click.echo(f"{path}: not looked at: {reason}", err=diff)
    click.echo(_totals(migration, diff), err=diff)
    changed = migration.changed
    if diff and changed:
        click.echo("Next: the same command with --write.", err=True)


def _totals(migration: Migration, diff: bool) -> str:
    rewritten = sum(len(file.rewritten) for file in migration.files)
    refused = sum(len(file.refused) for file in migration.files)
    unreadable = len(migration.unreadable)
    verb = "would be" if diff else "was" if rewritten == 1 else "were"
    parts = [
        f"{_count(rewritten, 'place')} {verb} rewritten in {_count(len(migration.changed), 'file')}"
        if rewritten
        else f"Nothing to rewrite in {_count(migration.looked_at, 'file')}",
        f"{refused} left as {'it is' if refused == 1 else 'they are'}" if refused else "",
        f"{_count(unreadable, 'file')} not looked at" if unreadable else "",
    ]
    return f"{', '.join(part for part in parts if part)}."


def _where(file: FileResult, span: object) -> str:
    cell = getattr(span, "cell", None)
    line = f"{getattr(span, 'line', 1)}:{getattr(span, 'column', 0) + 1}"
    return f"{file.path}:cell {cell}:{line}" if cell else f"{file.path}:{line}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _stop(message: str) -> None:
    click.echo(f"shardlift migrate: {message}", err=True)
    sys.exit(2)
