"""`shardlift status`: how far a migration is, from what `check` counts."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from shardlift._escape import escape_control
from shardlift.check.engine import FileReport, RuleSelection
from shardlift.check.rules import all_rules
from shardlift.cli.check_files import check_files
from shardlift.cli.config import open_project
from shardlift.cli.console import console
from shardlift.cli.document import document, item
from shardlift.cli.rewrite_options import PATHS
from shardlift.report.numbers import count, percent

# Sites that are left, and migrated ones; findings of these levels.
_COLUMNS = ("pmap", "migrated", "broken", "slow")


@click.command(
    short_help="Show how far a migration is, by folder.", epilog="Example: shardlift status src/"
)
@PATHS
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text")
def status(paths: tuple[str, ...], style: str) -> None:
    """Count by folder the sites that use pmap and that are migrated, and the findings of `check`.

    A site is migrated if it maps a function with jax.shard_map, or with a helper that `shardlift
    migrate` wrote. Nothing is imported or run. Exits 2 if there was a file that could not be
    looked at, else 0.
    """
    project = open_project(paths or (".",))
    reports = check_files(project.files, RuleSelection(), project.settings)
    failed = [(report.path, report.unreadable) for report in reports if report.unreadable]
    failed += project.passed.failed
    folders = _by_folder(reports)
    total = sum(folders.values(), Counter[str]())
    code = 2 if failed else 0
    if style == "json":
        left = [item("unreadable", why, path) for path, why in failed]
        numbers: dict[str, Any] = {"folders": {name: _numbers(n) for name, n in folders.items()}}
        click.echo(document("status", code, left=left, **_numbers(total) | numbers))
    else:
        _print(folders, total)
        for line in _sentences(total, failed):
            click.echo(escape_control(line))
    sys.exit(code)


def _by_folder(reports: list[FileReport]) -> dict[str, Counter[str]]:
    """The counts of each folder that has any."""
    folders: dict[str, Counter[str]] = {}
    for report in reports:
        counts = Counter(pmap=report.sites, migrated=report.migrated)
        counts.update(all_rules()[finding.code].level.value for finding in report.findings)
        if any(counts[column] for column in _COLUMNS):
            folder = PurePath(os.path.dirname(report.path) or ".").as_posix()
            folders[folder] = folders.get(folder, Counter()) + counts
    return dict(sorted(folders.items()))


def _numbers(counts: Counter[str]) -> dict[str, Any]:
    return {column: counts[column] for column in _COLUMNS}


def _print(folders: dict[str, Counter[str]], total: Counter[str]) -> None:
    rows = Table(box=None, pad_edge=False)
    rows.add_column("folder", overflow="fold")
    for column in _COLUMNS:
        rows.add_column(column, justify="right")
    for folder, counts in folders.items():
        rows.add_row(Text(escape_control(folder)), *map(str, _numbers(counts).values()))
    if len(folders) > 1:
        rows.add_row("total", *map(str, _numbers(total).values()), style="bold")
    if folders:
        console(piped=100).print(rows)


def _sentences(total: Counter[str], failed: list[tuple[str, str]]) -> Iterator[str]:
    """The result, what could not be looked at, and the next command."""
    if sites := total["pmap"] + total["migrated"]:
        share = percent(total["migrated"] / sites)
        yield f"{total['migrated']} of {count(sites, 'site')} migrated ({share})."
    else:
        yield "There is no pmap site, and no shard_map site."
    yield from (f"NOT looked at: {path}: {why}" for path, why in failed)
    if total["broken"]:
        yield "Next: shardlift check PATH   (shows what breaks)"
    elif total["pmap"]:
        yield "Next: shardlift migrate PATH   (shows how the rest would be rewritten)"
