"""`shardlift check`: what is broken, slow or the old way, one rule code per line."""

import sys
from dataclasses import replace
from functools import partial
from typing import NoReturn

import click
from rich.text import Text

from shardlift._escape import escape_control
from shardlift.check.engine import FileReport, RuleSelection
from shardlift.check.rules import all_rules
from shardlift.cli.check_baseline import NAME, BaselineFile, find_baseline
from shardlift.cli.check_files import check_files
from shardlift.cli.check_report import Report
from shardlift.cli.config import Config, ConfigError, ProjectFiles, open_project
from shardlift.cli.console import console as make_console
from shardlift.cli.console import progress_console
from shardlift.cli.files import Passed
from shardlift.cli.formats import github, json, sarif, terminal
from shardlift.cli.rewrite_options import EXCLUDE, PATHS
from shardlift.cli.stop import installed_version, stop
from shardlift.report.numbers import count
from shardlift.source.model import Level


@click.command(epilog="Example: shardlift check src/ --ignore SL201 --target-jax 0.10")
@PATHS
@click.option(
    "--format",
    "style",
    type=click.Choice(["full", "concise", "json", "github", "sarif"]),
    default=None,
    help="How to print: full on a terminal and concise elsewhere, unless said.",
)
@click.option("--select", multiple=True, metavar="CODES", help="Only these, e.g. SL1,SL402.")
@click.option("--ignore", multiple=True, metavar="CODES", help="All but these.")
@click.option(
    "--fail-on",
    type=click.Choice([level.value for level in Level]),
    default=Level.SLOW.value,
    help="Exit 1 for findings of this level, or of a worse one.",
)
@EXCLUDE
@click.option("--exit-zero", is_flag=True, help="Exit 0 even if there are findings.")
@click.option("--target-jax", metavar="V", help="The JAX to check for, e.g. 0.10.2.")
@click.option("--no-baseline", is_flag=True, help="Report all findings.")
@click.option(
    "--write-baseline",
    is_flag=True,
    help=f"Write all findings to {NAME} in the root of the project, and report none.",
)
@click.option("--quiet", "-q", is_flag=True, help="Findings only.")
@click.option("--verbose", "-v", is_flag=True, help="Also the files that were skipped.")
def check(
    paths: tuple[str, ...],
    style: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str,
    exclude: tuple[str, ...],
    exit_zero: bool,
    target_jax: str | None,
    no_baseline: bool,
    write_baseline: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Look for what is broken or slow on today's JAX, and note what is the old way.

    Reads .py and .ipynb under each PATH (the current folder if none is given) and imports
    nothing of them. With a baseline, only findings that are not in it count. Exits 0 if nothing
    is broken or slow (see --fail-on), 1 if something is, 2 if there was a file or folder that it
    could not look at, findings in others or not.
    """
    asked, paths = paths, paths or (".",)
    if no_baseline and write_baseline:
        raise click.UsageError("--no-baseline contradicts --write-baseline")
    project = open_project(paths, target_jax, exclude)
    target = project.settings.target
    try:
        options = _options(project.config, select, ignore)
        codes = options.codes("", project.settings)
        known = None if no_baseline else find_baseline(project.config, codes, write_baseline)
    except (ConfigError, ValueError) as error:
        stop(str(error))
    checked = tuple(_look(project, options, quiet))
    if known and write_baseline:
        _write_baseline(known, checked, project.passed, quiet)
    reports = known.new_only(checked) if known else checked
    folders = tuple(FileReport(path, unreadable=why) for path, why in project.passed.failed)
    report = Report(
        reports + folders,
        target,
        skipped=tuple(project.passed.skipped),
        paths=asked,
        installed=installed_version("jax"),
    )
    if known:
        hidden = sum(len(file.findings) for file in checked) - len(report.findings)
        report = replace(report, known=hidden, fixed=known.fixed(checked))
    style = style or ("full" if sys.stdout.isatty() else "concise")
    status = 2 if report.unreadable else int(report.fails(Level(fail_on)) and not exit_zero)
    if style == "json":
        click.echo(json.render(report, status))
    elif style == "sarif":
        click.echo(sarif.render(report))
    elif style == "github":
        click.echo(github.render(report))
    else:
        _print(report, style, quiet, verbose)
    sys.exit(status)


def _write_baseline(
    known: BaselineFile, reports: tuple[FileReport, ...], passed: Passed, quiet: bool
) -> NoReturn:
    try:
        number = known.write(reports)
    except ConfigError as error:
        stop(str(error))
    failed = [*passed.failed, *((r.path, r.unreadable) for r in reports if r.unreadable)]
    for path, why in failed:
        click.echo(escape_control(f"NOT looked at: {path}: {why}"), err=True)
    if not quiet:
        click.echo(f"{count(number, 'known finding')} in {NAME}. `check` reports new ones only.")
    sys.exit(2 if failed else 0)


def _look(project: ProjectFiles, options: RuleSelection, quiet: bool) -> list[FileReport]:
    look = partial(check_files, project.files, options, project.settings)
    errors = progress_console()
    if quiet or not errors.is_terminal or len(project.files) < 200:
        return look()
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("checking"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task("check", total=len(project.files))
        return look(lambda: progress.advance(task))


def _options(config: Config, select: tuple[str, ...], ignore: tuple[str, ...]) -> RuleSelection:
    wanted = _codes(select) or config.rules.select
    unwanted = _codes(ignore) or config.rules.ignore
    for code in (*wanted, *unwanted):
        if not any(known.startswith(code) for known in all_rules()):
            raise ValueError(f"no rule starts with {code!r}; `shardlift rule` lists them")
    return replace(config.rules, select=wanted, ignore=unwanted)


def _codes(values: tuple[str, ...]) -> tuple[str, ...]:
    codes = (code.strip().upper() for value in values for code in value.split(","))
    return tuple(code for code in codes if code)


def _print(report: Report, style: str, quiet: bool, verbose: bool) -> None:
    console = make_console(piped=80)
    if style == "full":
        terminal.full(report, console)
    else:
        terminal.concise(report, console)
    if verbose:
        for file in report.files:
            if not file.parsed and file.unreadable is None:
                console.print(Text(f"skipped: {escape_control(file.path)}"), soft_wrap=True)
        for path in report.skipped:
            console.print(Text(f"left out: {escape_control(path)}"), soft_wrap=True)
    if not quiet:
        if report.findings and style == "concise":
            console.print()
        terminal.summary(report, console)
