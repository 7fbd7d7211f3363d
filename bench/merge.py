"""What a maintainer would see in the pull request that `shardlift migrate` makes of a project.

    python -m bench.merge FOLDER... [--json] [--target-jax V] [--run "python train.py"]

A project is copied to a temporary folder and migrated there; the folder itself is only read.

sites       places where a function is mapped, or pmap is passed on, that were rewritten
places      all places that were rewritten: placing, reading and removed names, too
lines       lines added per place in the project's own files, as a diff counts them, helpers apart
helpers     lines of helpers, without the licence header, and in how many copies
unresolved  imports of helpers that do not resolve where the file's other imports do
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib.machinery
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.merge_tools import tools_of
from shardlift.cli.config import find_config
from shardlift.cli.files import Passed, find_files
from shardlift.rewrite.engine import ProjectMigration
from shardlift.rewrite.helpers import required
from shardlift.rewrite.results import FileResult, Migration
from shardlift.source.import_graph import read_imports
from shardlift.source.model import Kind

COMPILED = re.compile(r"^.*Finished XLA compilation of", re.M)
IGNORED = shutil.ignore_patterns(".git", "node_modules", "__pycache__", "*.npz", "*.pkl", "*.png")
Change = tuple[int | None, int | None]  # before, after


@dataclass
class Figures:
    """What was measured of one project."""

    project: str
    sites: int = 0
    places: int = 0
    refused: int = 0
    added: int = 0
    removed: int = 0
    helper_lines: int = 0
    copies: int = 0
    unresolved: list[str] = field(default_factory=list)
    findings: dict[str, Change] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)
    compilations: Change | None = None

    @property
    def lines_per_place(self) -> float:
        return self.added / self.places if self.places else 0.0

    @property
    def new_findings(self) -> int:
        known = [(old, new) for old, new in self.findings.values() if None not in (old, new)]
        return sum(max((new or 0) - (old or 0), 0) for old, new in known)


def measure(folder: Path, target: str | None, command: str | None) -> Figures:
    with tempfile.TemporaryDirectory() as place:
        # The same name: packages may be imported by that of their checkout.
        copy = Path(place).resolve() / folder.resolve().name
        shutil.copytree(folder, copy, symlinks=True, ignore=IGNORED)
        here = os.getcwd()
        os.chdir(copy)
        try:
            return _measured(folder.resolve().name, copy, target, command)
        finally:
            os.chdir(here)


def _measured(name: str, copy: Path, target: str | None, command: str | None) -> Figures:
    migration = _migration(target)
    own = [file for file in migration.files if file.changed]
    figures = Figures(name, refused=sum(len(file.refused) for file in migration.files))
    changes = [change for file in own for change in file.rewritten]
    figures.places = len(changes)
    figures.sites = sum(change.kind in (Kind.SITE, Kind.VALUE) for change in changes)
    for file in own:
        inside = helpers_inside(file)
        added, removed = _difference(file)
        figures.added += added - inside
        figures.removed += removed
        figures.helper_lines += inside
        figures.copies += inside > 0
    figures.helper_lines += sum(module_lines(module.after) for module in migration.helper_modules)
    figures.copies += len(migration.helper_modules)
    paths = [file.path for file in migration.changed if file.path.endswith(".py")]
    tools = tools_of(copy)
    figures.not_run = [tool.name for tool in tools if tool.path is None]
    before = {tool: tool.findings(copy, paths) for tool in tools if tool.path}
    compiled = compilations(command, copy) if command else None
    for file in migration.changed:
        Path(file.path).write_text(file.after, newline="")
    figures.unresolved = [file.path for file in own if not resolves(file)]
    for tool, old in before.items():
        figures.findings[tool.name] = (old, tool.findings(copy, paths))
    if command:
        figures.compilations = (compiled, compilations(command, copy))
    return figures


def _migration(target: str | None) -> Migration:
    files = list(find_files(["."], Passed()))
    settings = find_config(Path()).settings(target)
    read = lambda path: Path(path).read_bytes()  # noqa: E731
    return ProjectMigration(files, read, os.path.exists, settings=settings).render()


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
    return sum(found[0].count("\n") for found in re.finditer(pattern, text, re.M))


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
    imported = [one.parts for one in read_imports(ast.parse(file.before)) if not one.level]
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
    found = [_path_of(root, ".".join(parts[:n])) for n in (len(parts), len(parts) - 1) if n]
    return any(path is not None and path != own for path in found)


def _path_of(root: Path, name: str) -> Path | None:
    """The file that an import of a dotted name finds with one folder on `sys.path`."""
    places, found = [str(root)], None
    for part in name.split("."):
        found = importlib.machinery.PathFinder.find_spec(part, places)
        if found is None:
            return None
        places = list(found.submodule_search_locations or ())
    return Path(found.origin).resolve() if found and found.origin else Path(*places[:1])


def compilations(command: str, folder: Path) -> int | None:
    """How many programs JAX compiles while a command runs; None if it fails."""
    words = shlex.split(command)
    words[:1] = [sys.executable] if words[0] in ("python", "python3") else words[:1]
    env = {**os.environ, "JAX_LOG_COMPILES": "1"}
    done = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=1200, check=False
    )
    return None if done.returncode else len(COMPILED.findall(done.stderr))


def table(rows: Sequence[Figures]) -> Iterator[str]:
    width = max(len(row.project) for row in rows)
    yield (
        f"{'project':{width}}  sites  places  refused  lines  helpers  copies  unresolved  "
        "findings before → after"
    )
    for row in rows:
        shown = [f"{tool} {_change(pair)}" for tool, pair in row.findings.items()]
        shown += [f"{tool} not installed" for tool in row.not_run]
        if row.compilations is not None:
            shown.append(f"compilations {_change(row.compilations)}")
        yield (
            f"{row.project:{width}}  {row.sites:5}  {row.places:6}  {row.refused:7}  "
            f"{row.lines_per_place:5.1f}  {row.helper_lines:7}  {row.copies:6}  "
            f"{len(row.unresolved):10}  {', '.join(shown)}"
        )


def _change(pair: Change) -> str:
    return " → ".join("failed" if count is None else str(count) for count in pair)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.merge", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.add_argument("--target-jax", metavar="V", help="as for `shardlift migrate`")
    parser.add_argument("--run", metavar="COMMAND", help="a program, to count compilations")
    given = parser.parse_args(arguments)
    rows = [measure(folder, given.target_jax, given.run) for folder in given.folders]
    if given.json:
        derived = [
            {"lines_per_place": r.lines_per_place, "new_findings": r.new_findings} for r in rows
        ]
        print(
            json.dumps([asdict(r) | more for r, more in zip(rows, derived, strict=True)], indent=2)
        )
    else:
        print("\n".join(table(rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
