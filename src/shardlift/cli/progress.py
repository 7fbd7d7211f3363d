"""How far the migration of a project is, folder by folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from shardlift.check.engine import FileReport, Options
from shardlift.cli.check_pool import failure_text, run
from shardlift.cli.input_files import read_bytes, reason
from shardlift.cli.verified import Verified
from shardlift.migrate.progress import WORDS, migrated_sites, shim_sites
from shardlift.source.project import Project
from shardlift.source.settings import Settings
from shardlift.source.text import UnreadableError, read_source


@dataclass(frozen=True)
class Counts:
    """Numbers of sites."""

    left: int = 0  # pmapped
    shim: int = 0  # mapped by `shardlift.pmap`
    migrated: int = 0  # mapped by shard_map, verified ones included
    verified: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.left + other.left,
            self.shim + other.shim,
            self.migrated + other.migrated,
            self.verified + other.verified,
        )

    @property
    def total(self) -> int:
        """All sites."""
        return self.left + self.shim + self.migrated

    @property
    def share(self) -> float:
        """The share that is migrated; 1 if there is nothing to migrate."""
        return self.migrated / self.total if self.total else 1.0


@dataclass(frozen=True)
class Progress:
    """The counts of each folder that has sites, and the files that could not be looked at."""

    folders: dict[str, Counts]
    unreadable: tuple[tuple[str, str], ...] = ()
    stale: tuple[str, ...] = ()  # files that changed after they were verified

    @property
    def total(self) -> Counts:
        """The counts of all folders."""
        return sum(self.folders.values(), Counts())


def measure(files: Sequence[str], settings: Settings, verified: Verified) -> Progress:
    """Count the sites of all files."""
    reports = run(files, Options(), settings)
    unreadable = [(r.path, r.unreadable) for r in reports if r.unreadable is not None]
    project = Project(files, lambda path: read_source(path, read_bytes(path)), settings)
    folders: dict[str, Counts] = {}
    for report in reports:
        try:
            counts = Counts(left=report.sites) + _count_migrated(project, report, verified)
        except (OSError, UnreadableError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            unreadable.append((report.path, why))
            continue
        except Exception as error:  # a bug in shardlift; the other files are counted all the same
            unreadable.append((report.path, failure_text(error)))
            continue
        if counts.total:
            folder = PurePath(os.path.dirname(report.path) or ".").as_posix()
            folders[folder] = folders.get(folder, Counts()) + counts
        project.trim()
    stale = tuple(path for path in files if verified.is_stale(path))
    return Progress(dict(sorted(folders.items())), tuple(unreadable), stale)


def _count_migrated(project: Project, report: FileReport, verified: Verified) -> Counts:
    if report.unreadable is not None or not _has(read_bytes(report.path), WORDS):
        return Counts()
    file = project.file(report.path)
    sites = migrated_sites(file)
    proved = sum(verified.covers(report.path, site) for site in sites)
    return Counts(shim=len(shim_sites(file)), migrated=len(sites), verified=proved)


def _has(content: bytes, words: Iterable[bytes]) -> bool:
    return any(word in content for word in words)
