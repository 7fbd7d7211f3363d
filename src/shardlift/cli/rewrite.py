"""What `fix` and `migrate` share: their options, and a project rewritten, as a diff or in place."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console
from rich.text import Text

from shardlift._escape import escape_control
from shardlift._files import replace_file
from shardlift.check.engine import RuleSelection
from shardlift.check.rules import all_rules
from shardlift.cli import git, transaction
from shardlift.cli.check_files import check_files
from shardlift.cli.config import ProjectFiles, open_project
from shardlift.cli.console import phases
from shardlift.cli.files import read_capture
from shardlift.cli.formats import migration as formats
from shardlift.cli.formats import pull_request
from shardlift.cli.formats.diff import diff_of
from shardlift.cli.formats.places import place
from shardlift.cli.formats.pull_request import PullRequest
from shardlift.cli.leftovers import find_leftovers
from shardlift.cli.requirements import raise_requirements, sentences
from shardlift.cli.stop import end_by_exception, stop, stop_without_jax
from shardlift.cli.verify_options import Function, VerifyOptions
from shardlift.report.numbers import count
from shardlift.rewrite.engine import ProjectMigration
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import Migration
from shardlift.source.model import Finding, Level, Rewriter

if TYPE_CHECKING:
    from shardlift.cli.verified_migration import VerifiedMigration

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_FEW_FILES = 3  # with stale text, each named on a line of its own


_OPTIONS = (
    click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path()),
    click.option(
        "--diff/--write", "diff", default=True, help="Show the change (default), or make it."
    ),
    click.option(
        "--target-jax",
        metavar="V",
        help="Rewrite the names that this JAX no longer has, e.g. 0.10.2. Default: as for `check`, "
        "or the newest if the new text needs a newer one than that.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="PATTERN",
        help="Leave out what has this name, e.g. build, or path, e.g. src/old_*.",
    ),
    click.option("--allow-dirty", is_flag=True, help="Write what git does not have, too."),
    click.option(
        "--pr", metavar="FILE", help="With --write: a pull request's description, in Markdown."
    ),
    click.option("--format", "style", type=click.Choice(["text", "json"]), default="text"),
    click.option("--quiet", "-q", is_flag=True, help="No summary; with --write, nothing at all."),
    click.option("--verbose", "-v", is_flag=True, help="Also each place that was rewritten."),
)
_OF_OUTPUT = ("pr", "style", "quiet", "verbose")


def rewrite_options(command: Function) -> Function:
    """Give a command the options of `Request`, as keyword arguments."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class RewriteCommand(click.Command):
    """A command whose options are listed by what they are for."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section per group."""
        groups: dict[str, list[tuple[str, str]]] = {"Rewrite": [], "Verify": [], "Output": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                is_output = parameter.name in _OF_OUTPUT or "--help" in parameter.opts
                is_run = parameter.name in VerifyOptions.__dataclass_fields__
                groups["Output" if is_output else "Verify" if is_run else "Rewrite"].append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


@dataclass(frozen=True)
class Request:
    """What a command was asked to rewrite, and how to show it."""

    goal: Goal
    paths: tuple[str, ...]
    diff: bool
    target_jax: str | None
    exclude: tuple[str, ...]
    allow_dirty: bool
    pr: str | None
    style: str
    quiet: bool
    verbose: bool
    facts: tuple[str, ...] = ()


def rewrite(asked: Request, options: VerifyOptions) -> NoReturn:
    """Rewrite the files, show or write them, and exit with the status of the command."""
    goal, diff = asked.goal, asked.diff
    if asked.pr is not None and diff:
        stop("--pr describes what was written: say --write, too")
    paths = asked.paths
    if (killed := transaction.killed_before((*paths, "."))) is not None:
        if not diff:
            stop(killed)
        click.echo(escape_control(f"shardlift: {killed}"), err=True)
    opened = open_project(paths, asked.target_jax, asked.exclude)
    config, files, passed = opened.config, opened.files, opened.passed
    settings = replace(opened.settings, many_processes=options.many_processes)
    if goal is not Goal.FIX:
        settings = replace(settings, oldest=None)  # what takes the place of pmap needs a newer one
    contents = transaction.Contents()
    captures = [read_capture(path, "--facts") for path in asked.facts]

    project = ProjectMigration(files, contents.read, os.path.exists, goal, captures, settings)
    migration = project.render()
    # Where nothing leaves pmap, the names are those that `fix` writes.
    oldest = replace(migration, oldest=opened.settings.oldest).oldest_that_runs
    if oldest != settings.oldest:
        settings = replace(settings, oldest=oldest)
        project = ProjectMigration(files, contents.read, os.path.exists, goal, captures, settings)
        migration = project.render()
    left = _left_broken(opened, migration) if goal is Goal.FIX else ()
    verified = None
    if not diff:
        _refuse_dirty(migration, asked.allow_dirty)
        root = transaction.root_of([*paths, *(file.path for file in migration.changed)])
        if options.verify is not None and migration.changed:
            verified = _verify(project, contents, root, options, asked)
            migration = verified.migration
    raised = raise_requirements(config, settings.target, migration, contents.read)
    migration = replace(migration, requirements=raised.files)
    if not diff:
        _refuse_dirty(migration, asked.allow_dirty)  # the run may have shown more to change
        root = transaction.root_of([*paths, *(file.path for file in migration.changed)])
        _write(migration, contents, root, asked.allow_dirty)
    migration = replace(migration, unreadable=(*migration.unreadable, *passed.failed))
    status = _status(migration, diff)
    command = options.verify or ""
    request = PullRequest(migration, raised, verified, command, goal, settings.target, left)
    if asked.pr is not None:
        _describe(request, asked.pr)
    if asked.style == "json":
        click.echo(formats.machine(request, paths, status, settings.target, written=not diff))
        sys.exit(status)
    if diff:
        _show(migration)
    if not asked.quiet:
        for line in formats.readiness(migration, settings.target):
            _say(line, diff)
        _summary(migration, diff, asked.verbose)
        for line in (*formats.by_hand(left), *pull_request.facts(request)):
            _say(line, diff)
        needs = sentences(raised, migration)
        for line in (*stale_lines(migration, asked.verbose), *needs):
            _say(line, diff)
        if diff and migration.changed:
            click.echo("Next: the same command with --write.", err=True)
        results = formats.results(verified, command, asked.verbose) if verified else ()
        for line in results:
            _say(line, False)
    sys.exit(status)


def _left_broken(opened: ProjectFiles, migration: Migration) -> tuple[Finding, ...]:
    """What is broken and is neither repaired nor listed as refused."""
    config = opened.config
    options = RuleSelection(config.select or ("SL",), config.ignore, config.per_file_ignores)
    listed = {(file.path, change.span.line) for file in migration.files for change in file.refused}
    return tuple(
        finding
        for report in check_files(opened.files, options, opened.settings)
        for finding in report.findings
        if all_rules()[finding.code].level is Level.BROKEN
        and finding.rewriter is not Rewriter.FIX
        and (finding.path, finding.span.line) not in listed
    )


def _verify(
    project: ProjectMigration,
    contents: transaction.Contents,
    root: str,
    options: VerifyOptions,
    asked: Request,
) -> VerifiedMigration:
    """What of the migration holds in a run of the command."""
    try:
        from shardlift.cli import verified_migration
    except ImportError as error:
        stop_without_jax(error)
    try:
        with end_by_exception(), phases(asked.quiet) as tell:
            return verified_migration.verify_migration(
                project, contents, root, options, asked.goal, asked.verbose, tell
            )
    except verified_migration.ERRORS as error:
        from shardlift.cli.stuck import explain_error

        stop(f"{explain_error(error)}\nNothing was written.")


def _status(migration: Migration, diff: bool) -> int:
    if migration.unreadable:
        return 2
    return int(any(file.refused for file in migration.files) or bool(diff and migration.changed))


def _show(migration: Migration) -> None:
    """The diffs: for eyes on a terminal, elsewhere byte by byte, so that they can be applied."""
    console = Console(highlight=False, soft_wrap=True)
    for file in migration.changed:
        for line in diff_of(file):
            if sys.stdout.isatty():  # not `console.is_terminal`: FORCE_COLOR would spoil a pipe
                shown = escape_control(line.replace("\r\n", "\n"), keep="\n\t")
                console.print(Text(shown, style=_COLOURS.get(line[:1], "")), end="")
            else:
                click.echo(line, nl=False)


def _refuse_dirty(migration: Migration, allow_dirty: bool) -> None:
    dirty = [] if allow_dirty else git.dirty_files([file.path for file in migration.changed])
    if dirty:
        listed = "".join(f"\n  {path}" for path in dirty[:10])
        more = f"\n  and {len(dirty) - 10} more" if len(dirty) > 10 else ""
        stop(
            "git does not have the text of files that would be written: changed since `git add`, "
            f"or never added:{listed}{more}\nCommit or stash them, or say --allow-dirty."
        )


def _write(
    migration: Migration, contents: transaction.Contents, root: str, allow_dirty: bool
) -> None:
    """Write all files or none; where there is no git, each old text stays beside its file."""
    if not migration.changed:
        return
    paths = [] if allow_dirty else [file.path for file in migration.changed]
    copies = [copy for copy in map(contents.copy, paths) if copy is not None]
    try:
        changes = [contents.replacement(file.path, file.after) for file in migration.changed]
        transaction.replace_all([*changes, *copies], root)
    except (transaction.WriteError, OSError) as error:
        stop(str(error))
    for copy in copies:
        click.echo(escape_control(f"No git here: the old text is in {copy.path}"), err=True)


def _describe(request: PullRequest, path: str) -> None:
    try:
        replace_file(path, pull_request.markdown(request).encode("utf-8", "backslashreplace"))
    except OSError as error:
        stop(f"--pr {path} cannot be written: {error.strerror}; the migration itself was")


def _summary(migration: Migration, diff: bool, verbose: bool) -> None:
    most = sys.maxsize if verbose else formats.SCREEN
    for file in migration.files:
        for change in file.rewritten if verbose else ():
            _say(f"{place(file.path, change.span)}: rewritten: {change.text}", diff)
        for line in formats.by_reason(file.path, file.skipped if verbose else (), "skipped: "):
            _say(line, diff)
    for line in formats.refusals(migration.files, "left as it is: ", most=most):
        _say(line, diff)
    for choice in migration.processes:
        option = "" if choice.asked else " (--processes N)"
        _say(f"{formats.processes(choice)}{option}", diff)
        if choice.kept:
            _say(formats.WAYS_ON, diff)
    for path, reason in migration.unreadable:
        _say(f"{path}: not looked at: {reason}", diff)
    click.echo(_totals(migration, diff), err=diff)


def stale_lines(migration: Migration, verbose: bool = False) -> list[str]:
    """The comments and strings that still speak of pmap: a line per file, or one for many."""
    by_file: dict[str, list[str]] = {}
    for path, line, _ in find_leftovers(migration):
        by_file.setdefault(path, []).append(str(line))
    stale = "comments or strings still speak of pmap"
    if len(by_file) > _FEW_FILES and not verbose:
        first = [f"{path}:{lines[0]}" for path, lines in by_file.items()][:_FEW_FILES]
        number = count(sum(map(len, by_file.values())), "line")
        return [f"{stale}: {number} in {len(by_file)} files ({', '.join(first)}, ...)"]
    return [f"{path}: {stale}: {formats.numbers(lines)}" for path, lines in by_file.items()]


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
        f"{count(rewritten, 'place')} {verb} rewritten in {count(files, 'file')}"
        if rewritten
        else f"Nothing to rewrite in {count(migration.looked_at, 'file')}",
        f"{refused} left as {'it is' if refused == 1 else 'they are'}" if refused else "",
        f"{skipped} skipped, guarded by the program itself" if skipped else "",
        f"{count(unreadable, 'file')} not looked at" if unreadable else "",
    ]
    return f"{', '.join(part for part in parts if part)}."
