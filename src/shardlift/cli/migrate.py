"""`shardlift migrate`: pmap rewritten to jax.jit(jax.shard_map(...)), as a diff or in place."""

from __future__ import annotations

import difflib
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from shardlift._escape import escape_control
from shardlift._files import replace_file
from shardlift.cli import contents as writing
from shardlift.cli import leftovers, requirements, transaction
from shardlift.cli.analysis import analysed
from shardlift.cli.captures import read_capture
from shardlift.cli.config import Config, ConfigError, find_config
from shardlift.cli.files import Passed, find_files
from shardlift.cli.formats import migration as formats
from shardlift.cli.formats import pull_request
from shardlift.cli.formats.places import place
from shardlift.cli.formats.pull_request import PullRequest
from shardlift.cli.needs_jax import stop_without_jax
from shardlift.cli.stop import stop
from shardlift.cli.stuck import explain_error
from shardlift.cli.verify_options import VerifyOptions, verify_options
from shardlift.migrate.changes import Decisions
from shardlift.migrate.engine import ProjectMigration
from shardlift.migrate.goal import Goal, Only
from shardlift.migrate.results import FileResult, Migration
from shardlift.source.model import Kind
from shardlift.source.processes import Evidence
from shardlift.source.settings import Settings

if TYPE_CHECKING:
    from shardlift.cli.verified_migration import VerifiedMigration

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command(
    "migrate",
    epilog='Example: shardlift migrate src/ --write --verify "python train.py --steps 3"',
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
@click.option(
    "--to",
    type=click.Choice([goal.value for goal in Goal]),
    default=Goal.SHARD_MAP.value,
    show_default=True,
    help="shard_map: plain JAX, nothing of shardlift left. global: and no device axis where every "
    "array could be followed. jit: and data-parallel steps as jax.jit of the whole batch, without "
    "collectives. shim: shardlift.pmap, the least change.",
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([only.value for only in Only]),
    help="Only these changes; may be given several times. removed: names that JAX no longer has. "
    "pmap: what is mapped. placing: what places arrays on devices, or reads them. Default: all.",
)
@click.option(
    "--facts",
    multiple=True,
    metavar="FILE",
    help="For --to global and jit: what `shardlift run --record FILE` saw, and proved of the "
    "outputs. May be given several times: what holds in all runs is used.",
)
@click.option(
    "--analyse",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help="For --to global and jit: import MODULE and call FUNCTION, which returns a pmapped "
    "function and its arguments, as shapes. What is proven of its outputs is used like --facts.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="For --to global: keep every bit, with a helper around each function. [default: plain "
    "jax.shard_map, equal to rounding]",
)
@click.option("--diff/--write", "diff", default=True, help="Show the change (default), or make it.")
@click.option(
    "--pr", metavar="FILE", help="With --write: a pull request's description, in Markdown."
)
@click.option("--recover", is_flag=True, help="Only put right what was interrupted, and stop.")
@click.option("--allow-dirty", is_flag=True, help="Write although git has uncommitted changes.")
@click.option(
    "--target-jax",
    metavar="V",
    help="Rewrite the names that this JAX no longer has, e.g. 0.10.2. Default: as for `check`.",
)
@verify_options
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text")
@click.option("--quiet", "-q", is_flag=True, help="No summary; with --write, nothing at all.")
@click.option("--verbose", "-v", is_flag=True, help="Also each place that was rewritten.")
def migrate_command(
    paths: tuple[str, ...],
    to: str,
    only: tuple[str, ...],
    facts: tuple[str, ...],
    analyse: tuple[str, ...],
    exact: bool,
    diff: bool,
    pr: str | None,
    recover: bool,
    allow_dirty: bool,
    target_jax: str | None,
    style: str,
    quiet: bool,
    verbose: bool,
    **asked: Any,
) -> None:
    """Rewrite pmap to jax.jit(jax.shard_map(...)), with the same shapes and the same numbers.

    Reads .py and .ipynb under each PATH (the current folder if none is given) and runs nothing
    of them, unless --verify or --analyse says what to run. What cannot be rewritten is left as it
    is and listed with the reason.

    Exits 0 if there was nothing to do or all of it was written, 1 if there is a diff to look at
    or something was refused or backed out, 2 if a file could not be read or written, or COMMAND
    showed nothing.
    """
    goal = Goal(to)
    options = VerifyOptions(**asked)
    options.check(diff, goal, (*facts, *analyse))
    options = options.for_goal(goal)
    if exact and goal is not Goal.GLOBAL:
        raise click.UsageError(
            "--exact is for --to global: shard_map and shim keep every bit anyway"
        )
    if pr is not None and diff:
        stop("--pr describes what was written: say --write, too")
    paths = paths or (".",)
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        stop(f"no such file or folder: {', '.join(missing)}")
    _recover(paths, recover)
    config, settings = _settings(paths[0], target_jax)
    settings = replace(settings, many_processes=options.many_processes, exact=exact)
    settings = replace(settings, examples=frozenset(analyse))
    if only:
        kinds = frozenset[Kind]().union(*(Only(part).kinds for part in only))
        settings = replace(settings, kinds=kinds)
    passed = Passed()
    files = list(find_files(paths, passed))
    if not files and not passed.failed:
        stop(f"no .py or .ipynb file under {', '.join(paths)}")
    contents = writing.Contents()
    captures = [read_capture(path, "--facts") for path in facts]
    captures += [analysed(target) for target in analyse]
    project = ProjectMigration(files, contents.read, os.path.exists, goal, captures, settings)
    migration, verified = project.render(Decisions(strict_vma=options.strict_vma)), None
    if not diff:
        _refuse_dirty(migration, allow_dirty)
        root = transaction.root_of(paths)
        if options.verify is not None and migration.changed:
            verified = _verify(project, contents, root, options, verbose)
            migration = verified.migration
        _write(migration, contents, root)
    migration = replace(migration, unreadable=(*migration.unreadable, *passed.failed))
    status = _status(migration, diff)
    remaining = leftovers.find_leftovers(migration, paths, files, contents.read)
    raised = requirements.to_raise(config, settings, migration)
    request = PullRequest(migration, raised, remaining, verified, options.verify or "")
    if pr is not None:
        _describe(request, pr)
    if style == "json":
        tree = formats.machine(migration, settings.target, status, not diff, verified)
        click.echo(formats.with_rest(tree, raised, remaining), nl=False)
        sys.exit(status)
    if diff:
        _show(migration)
    if not quiet:
        _summary(migration, diff, verbose)
        for line in pull_request.facts(request):
            _say(line, diff)
        for line in leftovers.sentences(remaining, verbose):
            _say(line, diff)
        for line in requirements.sentences(raised, settings, migration.needed_jax):
            _say(line, diff)
        if diff and migration.changed:
            click.echo("Next: the same command with --write.", err=True)
        for line in formats.results(verified, options.verify or "", verbose) if verified else ():
            click.echo(line)
    sys.exit(status)


def _verify(
    project: ProjectMigration,
    contents: writing.Contents,
    root: str,
    options: VerifyOptions,
    verbose: bool,
) -> VerifiedMigration:
    """What of the migration holds in a run of the command."""
    try:
        from shardlift.cli import verified_migration
    except ImportError as error:
        stop_without_jax(error)
    try:
        with Console(stderr=True).status("starting") as status:
            request = verified_migration.request(project, contents, root, options, verbose)
            return verified_migration.verify_migration(request, status.update)
    except verified_migration.ERRORS as error:
        stop(f"{explain_error(error)}\nNothing was written.")


def _settings(path: str, target: str | None) -> tuple[Config, Settings]:
    try:
        config = find_config(Path(path))
        return config, config.settings(target)
    except (ConfigError, ValueError) as error:
        stop(str(error))


def _status(migration: Migration, diff: bool) -> int:
    if migration.unreadable:
        return 2
    return int(any(file.refused for file in migration.files) or bool(diff and migration.changed))


def _show(migration: Migration) -> None:
    """The diff: for eyes on a terminal, elsewhere byte by byte, so that it can be applied."""
    console = Console(highlight=False, soft_wrap=True)
    for file in migration.changed:
        for line in diff_of(file):
            if console.is_terminal:
                shown = escape_control(line.replace("\r\n", "\n"), keep="\n\t")
                console.print(Text(shown, style=_COLOURS.get(line[:1], "")), end="")
            else:
                click.echo(line, nl=False)


def diff_of(file: FileResult) -> list[str]:
    """The change of one file as a unified diff."""
    before, after = _for_diff(file.before), _for_diff(file.after)
    old = f"a/{escape_control(file.path)}" if before else "/dev/null"
    lines = list(difflib.unified_diff(before, after, old, f"b/{escape_control(file.path)}"))
    return [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    ]


def _for_diff(text: str) -> list[str]:
    """Lines as diff and patch see them: neither a `\\r` nor a form feed ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _refuse_dirty(migration: Migration, allow_dirty: bool) -> None:
    dirty = [] if allow_dirty else writing.dirty_files([file.path for file in migration.changed])
    if dirty:
        listed = "".join(f"\n  {path}" for path in dirty[:10])
        more = f"\n  and {len(dirty) - 10} more" if len(dirty) > 10 else ""
        stop(
            "git does not have the text of files that would be written: uncommitted changes, or "
            f"never added:{listed}{more}\nCommit or stash them, or say --allow-dirty."
        )


def _write(migration: Migration, contents: writing.Contents, root: str) -> None:
    if not migration.changed:
        return
    try:
        changes = [contents.change(file.path, file.after) for file in migration.changed]
        transaction.replace_all(changes, root)
    except transaction.WriteError as error:
        stop(str(error))


def _describe(request: PullRequest, path: str) -> None:
    try:
        replace_file(path, pull_request.markdown(request).encode("utf-8", "backslashreplace"))
    except OSError as error:
        stop(f"--pr {path} cannot be written: {error.strerror}; the migration itself was")


def _recover(paths: tuple[str, ...], only: bool) -> None:
    """Complete or put back what an interrupted migration left; with `only`, that is all."""
    found = transaction.journals((*paths, "."))
    try:
        for journal in found:
            click.echo(f"shardlift migrate: {transaction.recover(journal, only)}", err=True)
    except (transaction.WriteError, OSError) as error:
        stop(str(error))
    if only:
        click.echo("" if found else "Nothing was interrupted here.", nl=not found)
        sys.exit(0)


def _summary(migration: Migration, diff: bool, verbose: bool) -> None:
    for file in migration.files:
        for change in file.rewritten if verbose else ():
            _say(f"{place(file.path, change.span)}: rewritten: {change.text}", diff)
        for change in sorted(file.refused, key=lambda change: change.span):
            _say(f"{place(file.path, change.span)}: left as it is: {change.reason}", diff)
        for change in file.skipped:
            _say(f"{place(file.path, change.span)}: skipped: {change.reason}", diff)
    if migration.many_processes is not None:
        _say(_processes_sentence(migration.many_processes), diff)
    for path, reason in migration.unreadable:
        _say(f"{path}: not looked at: {reason}", diff)
    click.echo(_totals(migration, diff), err=diff)


def _processes_sentence(evidence: Evidence) -> str:
    line = f"{evidence.path}:{evidence.line}"
    return f"Written for many processes, because of {line}: {evidence.text} (--processes one|many)"


def _say(line: str, aside: bool) -> None:
    click.echo(escape_control(line), err=aside)


def _totals(migration: Migration, diff: bool) -> str:
    rewritten = sum(len(file.rewritten) for file in migration.files)
    refused = sum(len(file.refused) for file in migration.files)
    skipped = sum(len(file.skipped) for file in migration.files)
    unreadable = len(migration.unreadable)
    verb = "would be" if diff else "was" if rewritten == 1 else "were"
    files = sum(file.changed for file in migration.files)
    parts = [
        f"{_count(rewritten, 'place')} {verb} rewritten in {_count(files, 'file')}"
        if rewritten
        else f"Nothing to rewrite in {_count(migration.looked_at, 'file')}",
        f"{refused} left as {'it is' if refused == 1 else 'they are'}" if refused else "",
        f"{skipped} skipped, guarded by the program itself" if skipped else "",
        f"{_count(unreadable, 'file')} not looked at" if unreadable else "",
    ]
    return f"{', '.join(part for part in parts if part)}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
