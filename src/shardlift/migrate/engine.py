"""From the files of a project to their new texts: what `migrate` does, without any I/O."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from shardlift.capture.schema import Capture
from shardlift.check.prefilter import active
from shardlift.check.rules import all_rules
from shardlift.migrate.device_axis.rewrites import plan
from shardlift.migrate.helpers import (
    bare,
    definitions,
    emit,
    extended,
    import_block,
    required,
)
from shardlift.migrate.home import (
    Exists,
    Home,
    beside,
    find_home,
    imports_own_package,
    relative,
)
from shardlift.migrate.imports import add_definitions, add_imports, drop_unused
from shardlift.migrate.notebook import LayoutError, edit_cells, insert_cell
from shardlift.migrate.output_reads import FIRST_OF_TREE
from shardlift.migrate.passes import (
    PASSES,
    Place,
    Start,
    one_pass,
    rewritten,
    with_line_ends,
)
from shardlift.migrate.rewrite import Goal
from shardlift.source.decisions import Decisions, Where
from shardlift.source.edits import apply_edits
from shardlift.source.file import File
from shardlift.source.model import Kind, Match, Migrated, Version
from shardlift.source.project import Project
from shardlift.source.scopes import Index
from shardlift.source.settings import Settings
from shardlift.source.text import Source, UnreadableError, read_source

# The oldest JAX for which the new text of sites is tested: older ones lack `jax.P` or
# `jax.shard_map`, or (0.8, 0.9) fail to lower it without a mesh.
WRITTEN_FOR: Version = (0, 10)


@dataclass(frozen=True)
class FileResult:
    """What came of one file."""

    path: str
    before: str
    after: str
    rewritten: tuple[Place, ...] = ()
    refused: tuple[Place, ...] = ()
    helpers: frozenset[str] = frozenset()
    home: Home = field(default_factory=lambda: Home(None))

    @property
    def changed(self) -> bool:
        """Whether the text is another one."""
        return self.before != self.after


@dataclass(frozen=True)
class Migration:
    """What came of a project: its files that have something to say, and its modules of helpers."""

    files: tuple[FileResult, ...]
    helper_modules: tuple[FileResult, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    looked_at: int = 0

    @property
    def changed(self) -> tuple[FileResult, ...]:
        """Every file that has another text now, new ones included."""
        return tuple(file for file in (*self.helper_modules, *self.files) if file.changed)

    def needs_newer_jax(self, target: Version) -> bool:
        """Whether the new text does not run on a version of JAX; new names alone do."""
        kinds = {place.kind for file in self.files for place in file.rewritten}
        return target < WRITTEN_FOR and bool(kinds - {Kind.NAME})


def migrate(
    paths: Sequence[str],
    read: Callable[[str], bytes],
    exists: Exists,
    goal: Goal = Goal.SHARD_MAP,
    decisions: Decisions | None = None,
    facts: Capture | None = None,
    settings: Settings = Settings(),
) -> Migration:
    """Rewrite the files at `paths`; nothing is written. `read` raises OSError where it cannot.

    `decisions` are about single places; `facts`, what a run recorded, is for `Goal.GLOBAL`.
    """
    decisions = decisions or Decisions()
    left = decisions.left
    project = Project(paths, lambda path: read_source(path, read(path)), settings)
    worth: list[str] = []
    unreadable: list[tuple[str, str]] = []
    for path in paths:
        try:
            content = read(path)
        except OSError as error:
            unreadable.append((path, error.strerror or str(error)))
            continue
        if _is_worth(path, content):
            worth.append(path)
    starts: Mapping[str, Start] = {}
    if goal is Goal.GLOBAL:
        try:
            starts = to_global(project, paths, facts, decisions)
        except Exception as error:  # of ours: all arrays stay stacked
            why = f"shardlift failed to follow its arrays, please report it: {error!r}"
            unreadable.append((os.path.commonpath(paths), why))
        settings = replace(settings, many_processes=project.many_processes)
        project = Project(paths, lambda path: _source(path, read, starts), settings)
        worth += [path for path in starts if path not in worth]
    results: list[FileResult] = []
    for path in worth:
        try:
            content = read(path)
            source = read_source(path, content)
            if source.cells is not None:
                raw = content.decode("utf-8-sig")
                results.append(migrate_notebook(project, source, raw, goal, left))
            else:
                start = starts.get(path)
                results.append(migrate_file(project, source, goal, exists, start=start, left=left))
        except UnreadableError as error:
            unreadable.append((path, str(error)))
        except (RecursionError, MemoryError):
            unreadable.append((path, "nested too deeply"))
        except OSError as error:  # it has gone meanwhile
            unreadable.append((path, error.strerror or str(error)))
        except Exception as error:  # of ours; the other files are rewritten all the same
            unreadable.append((path, f"shardlift failed on it, please report it: {error!r}"))
        project.trim()
    results = [
        _beside_others(result, results, project, read, goal, starts, left) for result in results
    ]
    said = tuple(result for result in results if result.changed or result.refused)
    return Migration(said, _helper_modules(results, read, exists), tuple(unreadable), len(paths))


def _beside_others(
    result: FileResult,
    results: Sequence[FileResult],
    project: Project,
    read: Callable[[str], bytes],
    goal: Goal,
    starts: Mapping[str, Start],
    left: Mapping[Where, str],
) -> FileResult:
    """A script shares the helpers of the files beside it, and most of all those that lie there.

    A module of a package whose others import each other relatively does so, too.
    """
    path, folder = result.path, os.path.dirname(result.path)
    if not result.helpers or path.endswith(".ipynb") or result.home.module.startswith("."):
        return result
    same = [r.home for r in results if r.home.path == result.home.path]
    near = relative(path, result.home) if any(h.module.startswith(".") for h in same) else None
    if near is not None and not imports_own_package(result.before, result.home):
        source, start = read_source(path, read(path)), starts.get(path)
        return migrate_file(project, source, goal, home=near, start=start, left=left)
    homes = [r.home for r in results if os.path.dirname(r.path) == folder and r.home.path]
    here = [home for home in homes if os.path.dirname(home.path or "") == folder]
    if result.home.path is not None and (not here or result.home in here):
        return result
    for home in here or homes:
        if not home.module.startswith("."):
            source, start = read_source(path, read(path)), starts.get(path)
            return migrate_file(project, source, goal, home=home, start=start, left=left)
    return result


def to_global(
    project: Project, paths: Sequence[str], facts: Capture | None, decisions: Decisions
) -> dict[str, Start]:
    """The files that change because their arrays lose the device axis, or cannot."""
    files = [file for path in paths if (file := _parsed(project, path)) is not None]
    try:
        planned = plan(files, facts, decisions)
    except RecursionError:  # an expression of a thousand terms, say: all arrays stay stacked
        return {}
    starts: dict[str, Start] = {}
    for file in files:
        rewrites = planned.rewrites.get(file.path, [])
        kept = tuple(
            Place(file.span(found.at.node), Kind.SITE, found.text)
            for found in planned.findings
            if found.at.file is file
        )
        if rewrites or kept:
            edits = [with_line_ends(e, file.source.text) for r in rewrites for e in r.edits]
            text = apply_edits(file.source.text, edits) if edits else file.source.text
            places = tuple(Place(file.span(r.node), r.kind, file.brief(r.node)) for r in rewrites)
            after = replace(file.source, text=text)
            starts[file.path] = Start(
                file.source, after, tuple(edits), tuple(rewrites), places, kept
            )
    return starts


def _parsed(project: Project, path: str) -> File | None:
    try:
        return project.file(path)
    except (UnreadableError, OSError, RecursionError):
        return None


def _source(path: str, read: Callable[[str], bytes], starts: Mapping[str, Start]) -> Source:
    return starts[path].after if path in starts else read_source(path, read(path))


def _is_worth(path: str, content: bytes) -> bool:
    if b"jax" not in content and b"pmap" not in content:
        return False
    codes = tuple(c for c, rule in all_rules().items() if rule.migrated is not Migrated.NO)
    is_named = active(content, codes, path.endswith(".ipynb"))
    return bool(is_named) or FIRST_OF_TREE.search(content) is not None


def _helper_modules(
    results: Sequence[FileResult], read: Callable[[str], bytes], exists: Exists
) -> tuple[FileResult, ...]:
    wanted: dict[str, set[str]] = {}
    for result in results:
        if result.home.path is not None and result.helpers:
            wanted.setdefault(result.home.path, set()).update(result.helpers)
    found: list[FileResult] = []
    for path, names in wanted.items():
        before = read_source(path, read(path)).text if exists(path) else ""
        found.append(FileResult(path, before, helper_module(before, names)))
    return tuple(found)


def migrate_file(
    project: Project,
    source: Source,
    goal: Goal,
    exists: Exists = lambda _: False,
    home: Home | None = None,
    start: Start | None = None,
    left: Mapping[Where, str] = MappingProxyType({}),
) -> FileResult:
    """Rewrite one file; raises `UnreadableError` if it is not Python.

    `start` is what was done to it before, with all files in view.
    """
    start = start or Start(source, source)
    file = project.file(source.path, start.after)
    text, rewrites, places, refused = rewritten(file, goal, start, left)
    places, refused = start.places + places, start.kept + refused
    rewrites = [*start.rewrites, *rewrites]
    if text == source.text:
        return FileResult(source.path, text, text, (), refused)
    home = home or find_home(source.path, file.index.root, exists)
    helpers = frozenset(name for r in rewrites for name in r.helpers)
    taken = _taken(text, helpers) if home.path is None else None
    if taken is not None and taken not in map(bare, helpers):
        home = beside(source.path)  # only what the helpers need among themselves is in the way
    elif taken is not None:
        refused += tuple(replace(place, text=f"the name `{taken}` is taken") for place in places)
        return FileResult(source.path, source.text, source.text, (), refused)
    statements = {line for r in rewrites for line in r.imports}
    after = _finished(text, helpers, statements, home)
    if not source.path.endswith("__init__.py"):
        after = drop_unused(source.text, after)
    if not source.text.startswith(("\n", "\r")):
        after = after.lstrip("\r\n")  # the blank line after an import that was the first
    return FileResult(source.path, source.text, after, places, refused, helpers, home)


def migrate_notebook(
    project: Project, source: Source, raw: str, goal: Goal, left: Mapping[Where, str]
) -> FileResult:
    """Rewrite the cells of a notebook; its helpers get a cell in front of their first use."""
    file = project.file(source.path, source)
    current, text, first = file, raw, 0
    rewrites: list[Match] = []
    refused: tuple[Place, ...] = ()
    where = Where(source.path)
    for number in range(PASSES):
        chosen, refusals = one_pass(current, goal, lambda _: where, left)
        if not number:
            refused = tuple(Place(file.span(r.node), r.kind, r.message) for r in refusals)
            places = tuple(Place(file.span(r.node), r.kind, file.brief(r.node)) for r in chosen)
        if not chosen:
            break
        rewrites += chosen
        edits = [edit for r in chosen for edit in r.edits]
        first = min([first or len(raw), *(edit.span.cell or 0 for edit in edits)])
        try:
            text = edit_cells(text, edits)
        except LayoutError as error:
            refused += tuple(replace(place, text=str(error)) for place in places)
            return FileResult(source.path, raw, raw, (), refused)
        current = File(read_source(source.path, text.encode()), project)
    asked = {name for r in rewrites for name in r.helpers}
    _, missing, imports = extended(current.source.text, asked)
    statements = {line for r in rewrites for line in r.imports} | imports
    if missing or statements:
        block = f"\n\n\n{definitions(missing)}" if missing else ""
        text = insert_cell(text, first, import_block(statements) + block)
    return FileResult(source.path, raw, text, places if rewrites else (), refused)


def helper_module(existing: str, names: Iterable[str]) -> str:
    """The text of a package's module of helpers, with what is there kept."""
    if not existing.strip():
        return emit(names)
    text, missing, imports = extended(existing, names)
    if text == existing and not missing:
        return existing
    text = add_imports(text, imports)
    return f"{text.rstrip()}\n\n\n{definitions(missing)}" if missing else text


def _finished(text: str, names: frozenset[str], statements: set[str], home: Home) -> str:
    """The rewritten text with its imports in order, and its helpers if they live in it."""
    if home.path is None:
        text, missing, imports = extended(text, names)
        text = add_imports(text, statements | imports, home.package)
        if missing:
            text = add_definitions(text, definitions(missing), {h.name for h in missing})
        return text
    if names:
        listed = ", ".join(sorted({bare(name) for name in names}))
        statements = statements | {f"from {home.module} import {listed}"}
    return add_imports(text, statements, home.package)


def _taken(text: str, names: frozenset[str]) -> str | None:
    """A name that the helpers would need and that the text gives to something else."""
    bound = Index(ast.parse(text)).module.names
    there = [node for name in names for node in bound.get(bare(name), ())]
    if any(isinstance(node, ast.FunctionDef) for node in there):
        return None  # an earlier migration wrote them
    helpers = [*map(bare, names), *(helper.name for helper in required(names))]
    return next((name for name in helpers if name in bound), None)
