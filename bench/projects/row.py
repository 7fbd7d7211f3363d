"""One project measured: its sites, what is broken or slow, and what the commands make of it."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.projects.diff import Diff, rewrite_copy
from bench.projects.imports import Imports, try_imports
from bench.projects.programs import Program, run_programs
from shardlift.check.engine import RuleSelection, check_file, check_paths
from shardlift.check.rules import all_rules
from shardlift.cli.config import find_config
from shardlift.cli.files import Passed, find_files
from shardlift.rewrite.goal import Goal
from shardlift.source.file import File
from shardlift.source.project import Project
from shardlift.source.sites import Role
from shardlift.source.text import UnreadableError, read_source

OPTIONS = ("axis_name", "in_axes", "out_axes", "static_broadcasted_argnums", "devices", "backend")
OPTIONS += ("axis_size", "donate_argnums")  # of jax.pmap; flax's nnx.pmap has others
IGNORED = shutil.ignore_patterns(".git", "node_modules", "__pycache__", "*.npz", "*.pkl", "*.png")


@dataclass
class Row:
    """What is known about one project. Plain data: it is written as JSON."""

    project: str
    year: int
    kind: str = "program"  # program, library or notebooks: where its sites are
    files: int = 0
    lines: int = 0
    unreadable: int = 0
    sites: int = 0
    options: dict[str, int] = field(default_factory=dict)  # sites that use each option of pmap
    nested: int = 0  # findings of nested pmaps
    many_processes: bool = False
    broken: dict[str, int] = field(default_factory=dict)  # findings, by rule
    slow: dict[str, int] = field(default_factory=dict)
    note: dict[str, int] = field(default_factory=dict)
    fix: Diff = field(default_factory=Diff)
    migrate: Diff = field(default_factory=Diff)
    imports: Imports | None = None  # None: not tried
    programs: list[Program] | None = None
    failure: str = ""  # why the row is not complete
    seconds: float = 0.0


def measure(
    folder: Path, imports: bool = False, starters: Sequence[Path] | None = None
) -> dict[str, Any]:
    """The row of a project, as a tree for JSON. A failure is part of the row."""
    row = Row(folder.resolve().name.replace("+", "/"), year_of(folder))
    start = time.monotonic()
    try:
        with _copy_of(folder) as copy:
            _look(row)
            if imports:
                row.imports = Imports.of(interesting_files(copy))
            _rewrite(row, folder)
        if starters is not None:
            row.programs = run_programs(folder, starters)
    except Exception as error:  # a failure is a result: the other projects go on
        row.failure = f"{type(error).__name__}: {error}"[:300]
    row.seconds = round(time.monotonic() - start, 1)
    return asdict(row)


def year_of(folder: Path) -> int:
    """The year of the newest file: an archive of a commit has its date."""
    dates = [path.stat().st_mtime for path in folder.rglob("*.py")] or [folder.stat().st_mtime]
    return time.gmtime(max(dates)).tm_year


@contextlib.contextmanager
def _copy_of(folder: Path) -> Iterator[Path]:
    """A copy of the project, as the current folder."""
    with tempfile.TemporaryDirectory() as place:
        # The same name: packages may be imported by that of their checkout.
        copy = Path(place).resolve() / folder.resolve().name.rpartition("+")[2]
        shutil.copytree(folder, copy, symlinks=True, ignore=IGNORED)
        with contextlib.chdir(copy):
            yield copy


def _rewrite(row: Row, folder: Path) -> None:
    for goal in (Goal.FIX, Goal.SHARD_MAP):
        with _copy_of(folder) as copy:
            diff = rewrite_copy(goal, copy)
            if goal is Goal.FIX:
                row.fix = diff
            else:
                row.migrate = diff
            if row.imports is not None:
                name = "fix" if goal is Goal.FIX else "migrate"
                setattr(row.imports, name, _imports_after(row.imports, diff))


def _imports_after(before: Imports, diff: Diff) -> dict[str, str]:
    """What stops each module in the rewritten copy; as before where nothing was rewritten."""
    return try_imports(before.files, under_run=False) if diff.files else dict(before.plain)


def _look(row: Row) -> None:
    """Fill in what `check` and the sites say of the project in the current folder."""
    paths = list(find_files(["."], Passed()))
    contents = {path: Path(path).read_bytes() for path in paths}
    settings = find_config(Path()).settings("0.12")
    project = Project(paths, lambda path: read_source(path, contents[path]), settings)
    reports = check_paths(
        paths, lambda path, exports: check_file(project, path, contents[path], _ALL, exports)
    )
    row.files, row.lines = len(paths), sum(text.count(b"\n") for text in contents.values())
    site_paths = [report.path for report in reports if report.sites]
    row.unreadable = sum(report.unreadable is not None for report in reports)
    row.sites = sum(report.sites for report in reports)
    row.many_processes = any(project.has_many_processes(path) for path in site_paths)
    for report in reports:
        for finding in report.findings:
            level = getattr(row, all_rules()[finding.code].level.value)
            level[finding.code] = level.get(finding.code, 0) + 1
    row.nested = row.broken.get("SL204", 0)
    places = Counter[str]()
    options = Counter[str]()
    for report in reports:
        if report.sites:
            places[_kind(report.path)] += report.sites
            options.update(_options(project, report.path, contents[report.path]))
    row.options = dict(options.most_common())
    row.kind = places.most_common(1)[0][0] if places else "program"


_ALL = RuleSelection()


def _kind(path: str) -> str:
    """Where a site is: in a notebook, in a package that is imported, or in a program.

    >>> _kind("notebooks/train.ipynb"), _kind("train.py")
    ('notebooks', 'program')
    """
    if path.endswith(".ipynb"):
        return "notebooks"
    return "library" if (Path(path).parent / "__init__.py").exists() else "program"


def _options(project: Project, path: str, content: bytes) -> Iterator[str]:
    try:
        file: File = project.fresh().file(path, read_source(path, content))
        for site in file.sites:
            if site.role is Role.MAP:
                yield from [word for word in site.keywords if word in OPTIONS] or ["none"]
    except (UnreadableError, RecursionError):
        return


_REMOVED = re.compile(r"\bpmap\b|device_put_|PmapSharding|tree_map|jax_utils|host_callback")


def interesting_files(folder: Path, most: int = 5) -> list[str]:
    """Modules that use pmap or what stood around it, those with most uses first."""
    uses = {}
    for path in folder.rglob("*.py"):
        text = path.read_text(errors="replace")
        number = len(_REMOVED.findall(text))
        if number and "test" not in path.name and _parses(text):
            uses[os.fspath(path.relative_to(folder))] = number
    return sorted(uses, key=lambda path: (-uses[path], path))[:most]


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True
