"""What `fix` and `migrate` share: a project rewritten, as a diff or in place."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console
from rich.text import Text

from shardlift._escape import escape_control
from shardlift._files import replace_file
from shardlift.check.rules import all_rules
from shardlift.cli import git, transaction
from shardlift.cli.check_files import check_files
from shardlift.cli.config import ProjectFiles, open_project
from shardlift.cli.console import phases
from shardlift.cli.files import read_capture
from shardlift.cli.formats import migration_json, pull_request
from shardlift.cli.formats.diff import diff_of
from shardlift.cli.formats.migration import RewriteReport
from shardlift.cli.requirements import raise_requirements
from shardlift.cli.rewrite_options import Request
from shardlift.cli.stop import end_by_exception, need_jax, stop
from shardlift.rewrite.engine import ProjectMigration
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import Migration
from shardlift.source.model import Finding, Level, Rewriter

if TYPE_CHECKING:
    from shardlift.cli.verified_migration import VerifiedMigration

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_FASTER = (
    "There, a call of jax.pmap takes 1.4 to 2.8 times as long to start as one of shardlift.pmap, "
    "which --to shim writes."
)


def rewrite(asked: Request) -> NoReturn:
    """Rewrite the files, show or write them, and exit with the status of the command."""
    asked.check()
    goal, diff, paths = asked.goal, asked.diff, asked.paths or (".",)
    if (killed := transaction.killed_before((*paths, "."))) is not None:
        if not diff:
            stop(killed)
        click.echo(escape_control(f"shardlift: {killed}"), err=True)
    opened = open_project(paths, asked.target_jax, asked.exclude)
    config, files, passed = opened.config, opened.files, opened.passed
    settings = replace(opened.settings, many_processes=asked.many_processes)
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
    left = _left_by_hand(opened, migration) if goal is Goal.FIX else ()
    verified = None
    if not diff:
        _refuse_dirty(migration, asked.allow_dirty)
        root = transaction.root_of([*paths, *(file.path for file in migration.changed)])
        if asked.verify is not None and migration.changed:
            verified = _verify(project, contents, root, asked)
            migration = verified.migration
    requirements = raise_requirements(config, settings.target, migration, contents.read)
    migration = replace(migration, requirements=requirements.files)
    if not diff:
        _refuse_dirty(migration, asked.allow_dirty)  # the run may have shown more to change
        root = transaction.root_of([*paths, *(file.path for file in migration.changed)])
        _write(migration, contents, root, asked.allow_dirty)
    migration = replace(migration, unreadable=(*migration.unreadable, *passed.failed))
    report = RewriteReport(
        migration, goal, settings.target, not diff, requirements, left, verified, asked.verify or ""
    )
    to_do = any(file.refused for file in migration.files) or bool(diff and migration.changed)
    status = 2 if migration.unreadable else int(to_do)
    if asked.pr is not None:
        _describe(report, asked.pr)
    if asked.style == "json":
        click.echo(migration_json.render(report, paths, status))
        sys.exit(status)
    if diff:
        _show(migration)
    if not asked.quiet:
        _print(report, asked.verbose)
    sys.exit(status)


def _left_by_hand(opened: ProjectFiles, migration: Migration) -> tuple[Finding, ...]:
    """What is broken or slow and is neither repaired nor listed as refused."""
    migrated = (Rewriter.FIX, Rewriter.MIGRATE)
    others = {Level.BROKEN: migrated[:1], Level.SLOW: migrated, Level.NOTE: tuple(Rewriter)}
    listed = {(file.path, change.span.line) for file in migration.files for change in file.refused}
    rewritten = ((file.path, change.span) for file in migration.files for change in file.rewritten)
    done = {(path, span.line, span.column) for path, span in rewritten}  # in the end
    return tuple(
        finding
        for report in check_files(opened.files, opened.config.rules, opened.settings)
        for finding in report.findings
        if finding.rewriter not in others[all_rules()[finding.code].level]
        and (finding.path, finding.span.line) not in listed
        and (finding.path, finding.span.line, finding.span.column) not in done
    )


def _verify(
    project: ProjectMigration, contents: transaction.Contents, root: str, asked: Request
) -> VerifiedMigration:
    """What of the migration holds in a run of the command."""
    need_jax()
    from shardlift.cli import verified_migration

    try:
        with end_by_exception(), phases(asked.quiet) as tell:
            return verified_migration.verify_migration(project, contents, root, asked, tell)
    except verified_migration.ERRORS as error:
        from shardlift.cli.stuck import explain_error

        stop(f"{explain_error(error)}\nNothing was written.")


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
            f"or never added:{listed}{more}\nCommit or `git add` them, or say --allow-dirty."
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


def _describe(report: RewriteReport, path: str) -> None:
    try:
        replace_file(path, pull_request.markdown(report).encode("utf-8", "backslashreplace"))
    except OSError as error:
        stop(f"--pr {path} cannot be written: {error.strerror}; the migration itself was")


def _print(report: RewriteReport, verbose: bool) -> None:
    """The summary: beside a diff, on standard error."""
    for lines in report.sections(verbose=verbose).values():
        for line in lines:
            click.echo(escape_control(line), err=not report.written)
    if any(choice.kept for choice in report.migration.processes):
        click.echo(_FASTER, err=not report.written)
    if report.migration.changed and not report.written:
        click.echo("Next: the same command with --write.", err=True)
