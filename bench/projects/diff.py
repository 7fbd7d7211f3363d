"""What a maintainer would see in the pull request that `fix` or `migrate` makes of a project."""

from __future__ import annotations

import difflib
import importlib.machinery
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.projects.tools import tools_of
from shardlift.cli.config import find_config
from shardlift.cli.files import Passed, find_files
from shardlift.rewrite.engine import ProjectMigration
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.helpers import required
from shardlift.rewrite.results import FileResult, Migration
from shardlift.source.import_graph import read_imports
from shardlift.source.model import Kind

Change = tuple[int | None, int | None]  # before, after


@dataclass
class Diff:
    """The figures of one rewrite of a project."""

    sites: int = 0  # places where a function is mapped, or pmap is passed on, that were rewritten
    places: int = 0  # all places that were rewritten: placing, reading and removed names, too
    files: int = 0
    added: int = 0  # lines, helpers apart
    removed: int = 0
    helper_lines: int = 0  # without a licence header, all copies together
    copies: int = 0
    left: dict[str, int] = field(default_factory=dict)  # by reason
    unresolved: list[str] = field(default_factory=list)  # files whose import of a helper fails
    findings: dict[str, Change] = field(default_factory=dict)  # of the project's own tools
    seconds: float = 0.0


def rewrite_copy(goal: Goal, copy: Path) -> Diff:
    """Rewrite the project in the current folder, which is a copy, and measure the change."""
    start = time.process_time()
    migration = _migration(goal)
    own = [file for file in migration.files if file.changed]
    changes = [change for file in own for change in file.rewritten]
    diff = Diff(places=len(changes), files=len(own), seconds=time.process_time() - start)
    diff.sites = sum(change.kind in (Kind.SITE, Kind.VALUE) for change in changes)
    diff.left = _reasons(migration)
    for file in own:
        inside = helpers_inside(file)
        added, removed = _difference(file)
        diff.added += added - inside
        diff.removed += removed
        diff.helper_lines += inside
        diff.copies += inside > 0
    diff.helper_lines += sum(module_lines(module.after) for module in migration.helper_modules)
    diff.copies += len(migration.helper_modules)
    paths = [file.path for file in migration.changed if file.path.endswith(".py")]
    before = {tool: tool.findings(copy, paths) for tool in tools_of(copy) if tool.path and paths}
    for file in migration.changed:
        Path(file.path).write_text(file.after, newline="")
    diff.unresolved = [file.path for file in own if not resolves(file)]
    for tool, old in before.items():
        diff.findings[tool.name] = (old, tool.findings(copy, paths))
    return diff


def _migration(goal: Goal) -> Migration:
    files = list(find_files(["."], Passed()))
    settings = find_config(Path()).settings("0.12")
    read = lambda path: Path(path).read_bytes()  # noqa: E731
    return ProjectMigration(files, read, os.path.exists, goal, settings=settings).render()


def _reasons(migration: Migration) -> dict[str, int]:
    """Why places were left, names and numbers of the project aside."""
    messages = [change.reason for file in migration.files for change in file.refused]
    return dict(Counter(map(without_names, messages)).most_common())


def without_names(message: str) -> str:
    """A reason without what it quotes of the project, so that equal reasons are counted as one.

    >>> without_names("`train` is called in line 12")
    '… is called in line …'
    """
    return re.sub(r"`[^`]*`|'[^']*'|\b\d+\b", "…", message)


def _difference(file: FileResult) -> tuple[int, int]:
    """The lines that a diff adds and removes."""
    lines = list(difflib.unified_diff(file.before.splitlines(), file.after.splitlines(), n=0))[2:]
    return sum(x.startswith("+") for x in lines), sum(x.startswith("-") for x in lines)


def helpers_inside(file: FileResult) -> int:
    """The lines of helpers that were written into a file itself."""
    if file.path.endswith(".ipynb"):
        return max(len(file.after.splitlines()) - len(file.before.splitlines()), 0) * (
            "def spmd_map" in file.after and "def spmd_map" not in file.before
        )
    if file.home.path is not None or not file.helpers:
        return 0
    names = {helper.name for helper in required(file.helpers)}
    return sum(_definition_lines(file.after, name) for name in names)


def _definition_lines(text: str, name: str) -> int:
    pattern = rf"^(?:@.*\n)*(?:def|class) {name}\b.*\n(?:(?:[ \t)].*)?\n)*|^{name} = .*\n"
    return sum(match[0].count("\n") for match in re.finditer(pattern, text, re.M))


def module_lines(text: str) -> int:
    """The lines of a module of helpers below its licence header."""
    return len(re.sub(r"\A(?:#.*\n)*\s*", "", text).splitlines())


def resolves(file: FileResult) -> bool:
    """Whether the import of helpers finds their module where the file's other imports resolve."""
    if file.home.path is None or not file.helpers:
        return True
    module, home = file.home.module, Path(file.home.path).resolve()
    folder = Path(file.path).resolve().parent
    if module.startswith("."):
        up = len(module) - len(module.lstrip(".")) - 1
        return (folder, *folder.parents)[up] / f"{module.lstrip('.')}.py" == home
    imported = [one.parts for one in read_imports(file.before) if not one.level]
    others = [".".join(parts) for parts in imported if parts[0] not in sys.stdlib_module_names]
    inside = [one for one in (folder, *folder.parents) if one.is_relative_to(Path.cwd().parent)]
    roots = [root for above in inside for root in (above, above / "src")]
    own = Path(file.path).resolve()
    used = [root for root in roots if any(_is_found(root, name, own) for name in others)]
    if "if __name__ ==" in file.before:  # run as a program, it imports from its folder
        used.append(folder)
    return any(_path_of(root, module) == home for root in used or roots)


def _is_found(root: Path, name: str, own: Path) -> bool:
    """Whether an import resolves, and not to the file itself."""
    parts = name.split(".")
    paths = [_path_of(root, ".".join(parts[:n])) for n in (len(parts), len(parts) - 1) if n]
    return any(path is not None and path != own for path in paths)


def _path_of(root: Path, name: str) -> Path | None:
    """The file that an import of a dotted name finds with one folder on `sys.path`."""
    places, spec = [str(root)], None
    for part in name.split("."):
        spec = importlib.machinery.PathFinder.find_spec(part, places)
        if spec is None:
            return None
        places = list(spec.submodule_search_locations or ())
    return Path(spec.origin).resolve() if spec and spec.origin else Path(*places[:1])


def new_findings(findings: Mapping[str, Change]) -> int:
    """How many findings of the project's tools a rewrite added."""
    known = [(old, new) for old, new in findings.values() if old is not None and new is not None]
    return sum(max(new - old, 0) for old, new in known)
