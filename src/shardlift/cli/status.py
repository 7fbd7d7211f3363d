"""`shardlift status`: how far a migration is, from what `check` counts."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import PurePath

import click
from rich.table import Table
from rich.text import Text

from shardlift._escape import escape_control
from shardlift.check.engine import FileReport, RuleSelection
from shardlift.check.rules import all_rules
from shardlift.cli.check_files import check_files
from shardlift.cli.config import open_project
from shardlift.cli.console import console
from shardlift.report.numbers import count, percent
from shardlift.source.model import Level


@dataclass(frozen=True)
class Counts:
    """Numbers of sites and of findings."""

    pmap: int = 0  # sites that are left
    migrated: int = 0
    broken: int = 0  # findings: removed names, errors, other numbers
    slow: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@click.command(
    short_help="Show how far a migration is, by folder.",
    epilog="Example: shardlift status src/",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text")
def status(paths: tuple[str, ...], style: str) -> None:
    """Count by folder the sites that use pmap and that are migrated, and the findings of `check`.

    A site is migrated if it maps a function with jax.shard_map, or with a helper that `shardlift
    migrate` wrote. Nothing is imported or run. Exits 2 if there was a file that could not be
    looked at, else 0.
    """
    paths = paths or (".",)
    project = open_project(paths)
    reports = check_files(project.files, RuleSelection(), project.settings)
    failed = [(report.path, report.unreadable) for report in reports if report.unreadable]
    failed += project.passed.failed
    folders = _by_folder(reports)
    total = sum(folders.values(), Counts())
    if style == "json":
        click.echo(_machine(folders, total, failed))
    else:
        _print(folders, total, failed)
    sys.exit(2 if failed else 0)


def _by_folder(reports: list[FileReport]) -> dict[str, Counts]:
    """The counts of each folder that has any."""
    folders: dict[str, Counts] = {}
    for report in reports:
        levels = [all_rules()[finding.code].level for finding in report.findings]
        bad = levels.count(Level.BROKEN), levels.count(Level.SLOW)
        counts = Counts(report.sites, report.migrated, *bad)
        if counts != Counts():
            folder = PurePath(os.path.dirname(report.path) or ".").as_posix()
            folders[folder] = folders.get(folder, Counts()) + counts
    return dict(sorted(folders.items()))


def _print(folders: dict[str, Counts], total: Counts, failed: list[tuple[str, str]]) -> None:
    out = console(piped=100)
    rows = Table(box=None, pad_edge=False)
    rows.add_column("folder", overflow="fold")
    for column in fields(Counts):
        rows.add_column(column.name, justify="right")
    for folder, counts in folders.items():
        rows.add_row(Text(escape_control(folder)), *map(str, astuple(counts)))
    if len(folders) > 1:
        rows.add_row("total", *map(str, astuple(total)), style="bold")
    if folders:
        out.print(rows)
    for line in _sentences(total, failed):
        out.print(Text(escape_control(line)), soft_wrap=True)


def _sentences(total: Counts, failed: list[tuple[str, str]]) -> list[str]:
    """The result, what could not be looked at, and the next command."""
    sites = total.pmap + total.migrated
    lines = ["There is no pmap site, and no shard_map site."]
    if sites:
        share = percent(total.migrated / sites)
        lines = [f"{total.migrated} of {count(sites, 'site')} migrated ({share})."]
    lines += [f"NOT looked at: {path}: {why}" for path, why in failed]
    if total.broken:
        lines.append("Next: shardlift check PATH   (shows what breaks)")
    elif total.pmap:
        lines.append("Next: shardlift migrate PATH   (shows how the rest would be rewritten)")
    return lines


def _machine(folders: dict[str, Counts], total: Counts, failed: list[tuple[str, str]]) -> str:
    """One JSON document; `version` is the version of its schema."""
    document = {
        "version": 1,
        **asdict(total),
        "folders": {folder: asdict(counts) for folder, counts in folders.items()},
        "not_looked_at": [{"path": path, "reason": why} for path, why in failed],
    }
    return json.dumps(document, indent=2)
