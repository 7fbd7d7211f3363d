"""From the files of a project to their new texts: what `migrate` does, without any I/O."""

from __future__ import annotations

import ast
import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from shardlift.capture.schema import Capture
from shardlift.check.prefilter import active_codes
from shardlift.check.rules import all_rules
from shardlift.migrate.call_format import Style
from shardlift.migrate.changes import Change, ChangeId, Decisions, notebook_id
from shardlift.migrate.device_axis.program import Program
from shardlift.migrate.device_axis.rewrites import analyse, plan
from shardlift.migrate.guarded_imports import add_guarded, is_optional
from shardlift.migrate.helpers import (
    bare,
    definitions,
    emit,
    extended,
    import_block,
    required,
)
from shardlift.migrate.home import Home, beside, find_homes
from shardlift.migrate.imports import (
    add_definitions,
    add_imports,
    drop_unused,
    has_one_name_per_line,
    imports_like,
    in_order,
)
from shardlift.migrate.layout import Exists, Layout
from shardlift.migrate.names import JAX
from shardlift.migrate.notebook import edit_cells, insert_cell
from shardlift.migrate.output_reads import FIRST_OF_TREE
from shardlift.migrate.passes import (
    PASSES,
    Rendering,
    one_pass,
    render,
)
from shardlift.migrate.rewrite import Goal
from shardlift.source.file import File
from shardlift.source.model import Kind, Match, Migrated, Version
from shardlift.source.processes import Evidence
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
    rewritten: tuple[Change, ...] = ()
    refused: tuple[Change, ...] = ()
    skipped: tuple[Change, ...] = ()  # the program's own guards for removed names
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
    many_processes: Evidence | None = None  # why sites are written for many processes

    @property
    def changed(self) -> tuple[FileResult, ...]:
        """Every file that has another text now, new ones included."""
        return tuple(file for file in (*self.helper_modules, *self.files) if file.changed)

    @property
    def needed_jax(self) -> Version | None:
        """The oldest JAX that runs the new text; None if it is as it was: new names alone do."""
        kinds = {change.kind for file in self.files for change in file.rewritten}
        return WRITTEN_FOR if kinds - {Kind.NAME} else None


def migrate(
    paths: Sequence[str],
    read: Callable[[str], bytes],
    exists: Exists,
    goal: Goal = Goal.SHARD_MAP,
    decisions: Decisions | None = None,
    facts: Capture | None = None,
    settings: Settings = Settings(),
) -> Migration:
    """Rewrite the files at `paths` once: see `ProjectMigration`."""
    project = ProjectMigration(paths, read, exists, goal, facts, settings)
    return project.render(decisions or Decisions())


class ProjectMigration:
    """The migration of a project. Its files are read and parsed once.

    `render` gives the texts for any choice of the changes; of a file whose changes are chosen as
    before, the text is remembered.
    """

    def __init__(
        self,
        paths: Sequence[str],
        read: Callable[[str], bytes],
        exists: Exists,
        goal: Goal = Goal.SHARD_MAP,
        facts: Capture | None = None,
        settings: Settings = Settings(),
    ) -> None:
        """`read` raises OSError where it cannot; `facts`, from a run, are for `Goal.GLOBAL`."""
        self._paths, self._read, self._exists = paths, read, exists
        self._goal, self._facts = goal, facts
        self._project = Project(paths, lambda path: read_source(path, read(path)), settings)
        self._worth: list[str] = []
        self._unreadable: list[tuple[str, str]] = []
        self._stages: dict[object, _Stage] = {}
        self._layout = Layout(paths, self._text, exists)
        for path in paths:
            try:
                if _is_worth(path, read(path)):
                    self._worth.append(path)
            except OSError as error:
                self._unreadable.append((path, error.strerror or str(error)))

    def render(self, decisions: Decisions = Decisions()) -> Migration:
        """The new texts; nothing is written."""
        stage = self._stage(decisions)
        unreadable = [*self._unreadable, *stage.unreadable]
        drafts: dict[str, Rendering | NotebookDraft] = {}
        for path in dict.fromkeys([*self._worth, *stage.starts]):
            with _listing(path, unreadable):
                drafts[path] = self._draft(stage, path, decisions)
            stage.project.trim()
        users = [path for path, draft in drafts.items() if draft.helpers]
        homes = find_homes(users, self._layout, self._exists) if users else {}
        results: list[FileResult] = []
        for path, draft in drafts.items():
            with _listing(path, unreadable):
                results.append(stage.finish(draft, homes.get(path, Home(None))))
        shown = tuple(r for r in results if r.changed or r.refused or r.skipped)
        modules = _helper_modules(results, self._read, self._exists)
        evidence = self._process_evidence(shown)
        return Migration(shown, modules, tuple(unreadable), len(self._paths), evidence)

    def _process_evidence(self, files: Sequence[FileResult]) -> Evidence | None:
        if self._goal is Goal.SHIM or self._project.settings.many_processes is not None:
            return None
        mapped = (Kind.SITE, Kind.VALUE)
        paths = [f.path for f in files if any(change.kind in mapped for change in f.rewritten)]
        found = (self._project.process_evidence(path) for path in paths)
        return next((one for one in found if one is not None and one.many), None)

    def _stage(self, decisions: Decisions) -> _Stage:
        """The files as the step that needs all of them together leaves them."""
        if self._goal is not Goal.GLOBAL or Kind.SITE not in self._project.settings.kinds:
            return self._stages.setdefault(None, _Stage(self._project))
        left, loose = frozenset(decisions.left.items()), frozenset(decisions.loose.items())
        key = left, decisions.strict_vma, loose
        if key not in self._stages:
            self._stages[key] = self._to_global(decisions)
        return self._stages[key]

    @cached_property
    def _program(self) -> Program:
        """The values of all files, followed once, whatever changes are chosen."""
        files = (_parsed(self._project, path) for path in self._paths)
        return analyse([file for file in files if file is not None], self._facts)

    def _to_global(self, decisions: Decisions) -> _Stage:
        starts: Mapping[str, Rendering] = {}
        unreadable: list[tuple[str, str]] = []
        try:
            starts = to_global(self._program, decisions)
        except RecursionError:
            pass  # an expression of a thousand terms, say: all arrays stay stacked
        except Exception as error:  # a bug in shardlift: all arrays stay stacked
            why = f"shardlift failed to follow its arrays, please report it: {error!r}"
            unreadable.append((os.path.commonpath(self._paths), why))
        settings = self._project.settings
        project = Project(self._paths, lambda path: _source(path, self._read, starts), settings)
        return _Stage(project, starts, unreadable)

    def _draft(self, stage: _Stage, path: str, decisions: Decisions) -> Rendering | NotebookDraft:
        """A file with its new text, but for its imports and helpers."""
        left = decisions.of_file(path)
        key = path, frozenset(left.items())
        if key not in stage.drafts:
            content = self._read(path)
            source = read_source(path, content)
            if source.cells is not None:
                raw = content.decode("utf-8-sig")
                stage.drafts[key] = draft_notebook(stage.project, source, raw, self._goal, left)
            else:
                draft = stage.starts.get(path, Rendering.of(source)).copy()
                render(stage.project.file(path, draft.source), self._goal, draft, left)
                stage.drafts[key] = draft
        return stage.drafts[key]

    def _text(self, path: str) -> str:
        try:
            return read_source(path, self._read(path)).text
        except (UnreadableError, OSError):
            return ""


@contextlib.contextmanager
def _listing(path: str, unreadable: list[tuple[str, str]]) -> Iterator[None]:
    """List a file that cannot be rewritten, with the reason; the others are rewritten."""
    try:
        yield
    except UnreadableError as error:
        unreadable.append((path, str(error)))
    except (RecursionError, MemoryError):
        unreadable.append((path, "nested too deeply"))
    except OSError as error:  # it has gone meanwhile
        unreadable.append((path, error.strerror or str(error)))
    except Exception as error:  # a bug in shardlift
        unreadable.append((path, f"shardlift failed on it, please report it: {error!r}"))


@dataclass
class _Stage:
    """A project whose files are rewritten one by one, and the drafts so far."""

    project: Project
    starts: Mapping[str, Rendering] = field(default_factory=dict)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    drafts: dict[object, Rendering | NotebookDraft] = field(default_factory=dict)
    results: dict[object, FileResult] = field(default_factory=dict)

    def finish(self, draft: Rendering | NotebookDraft, home: Home) -> FileResult:
        """The result of a draft, which is remembered."""
        key = id(draft), home
        if key not in self.results:
            self.results[key] = (
                finish(draft, home) if isinstance(draft, Rendering) else draft.finish(home)
            )
        return self.results[key]


def to_global(program: Program, decisions: Decisions) -> dict[str, Rendering]:
    """The files that change because their arrays lose the device axis, or cannot."""
    planned = plan(program, decisions)
    renderings = {file.path: Rendering.of(file.source) for file in program.files}
    kinds = ((planned.findings, Kind.SITE), (planned.loose, Kind.CHECK_VMA))
    for findings, kind in kinds:
        for finding in findings:
            file = finding.at.file
            match = Match(finding.at.node, finding.text, kind=kind)
            renderings[file.path].refused.append(renderings[file.path].change(file, match))
    for file in program.files:
        renderings[file.path].make(file, planned.rewrites.get(file.path, []))
    return {path: one for path, one in renderings.items() if one.changes or one.refused}


def _parsed(project: Project, path: str) -> File | None:
    try:
        return project.file(path)
    except (UnreadableError, OSError, RecursionError):
        return None


def _source(path: str, read: Callable[[str], bytes], starts: Mapping[str, Rendering]) -> Source:
    return starts[path].source if path in starts else read_source(path, read(path))


def _is_worth(path: str, content: bytes) -> bool:
    if not any(word in content for word in (b"jax", b"flax", b"pmap")):
        return False
    codes = tuple(c for c, rule in all_rules().items() if rule.migrated is not Migrated.NO)
    is_named = active_codes(content, codes, path.endswith(".ipynb"))
    return bool(is_named) or FIRST_OF_TREE.search(content) is not None


def _helper_modules(
    results: Sequence[FileResult], read: Callable[[str], bytes], exists: Exists
) -> tuple[FileResult, ...]:
    users: dict[str, list[FileResult]] = {}
    for result in results:
        if result.home.path is not None and result.helpers:
            users.setdefault(result.home.path, []).append(result)
    found: list[FileResult] = []
    for path, files in users.items():
        before = read_source(path, read(path)).text if exists(path) else ""
        names = frozenset[str]().union(*(file.helpers for file in files))
        texts = [file.before for file in files if file.path.endswith(".py")]
        style = Style.of("\n".join(texts))
        text = helper_module(before, names, style, licence_header(texts[0]))
        found.append(FileResult(path, before, text if before else imports_like(texts[0], text)))
    return tuple(found)


def licence_header(text: str) -> str:
    """The comment at the top of a file, with the blank line below, if it is about a licence."""
    found = re.match(r"(?:#!.*\n)?(?:#.*coding[:=].*\n)?((?:#.*\n)+\s*)", text)
    if found is None or not re.search(r"copyright|licen[cs]e|spdx", found[1], re.I):
        return ""
    return f"{found[1].rstrip()}\n\n" if found[1].endswith("\n\n") else found[1]


def finish(draft: Rendering, home: Home) -> FileResult:
    """A rewritten file with its imports, and with its helpers if it has no other home for them."""
    source, text, helpers = draft.before, draft.text, frozenset(draft.helpers)
    changes, refused = tuple(draft.changes), tuple(draft.refused)
    skipped = tuple(draft.skipped)
    if text == source.text:
        return FileResult(source.path, text, text, (), refused, skipped)
    optional = bool(helpers) and is_optional(text)
    if optional and home.path is None:
        home = beside(source.path)  # its module cannot define them where JAX is missing
    taken = _taken(text, helpers) if home.path is None else None
    if taken is not None and taken not in map(bare, helpers):
        home = beside(source.path)  # only what the helpers need among themselves is in the way
    elif taken is not None:
        refused += tuple(replace(one, reason=f"the name `{taken}` is taken") for one in changes)
        return FileResult(source.path, source.text, source.text, (), refused, skipped)
    after = _finished(text, helpers, draft.imports, home, optional)
    if not source.path.endswith("__init__.py"):
        after = in_order(source.text, drop_unused(source.text, after))
    if not source.text.startswith(("\n", "\r")):
        after = after.lstrip("\r\n")  # the blank line after an import that was the first
    return FileResult(source.path, source.text, after, changes, refused, skipped, helpers, home)


@dataclass(frozen=True)
class NotebookDraft:
    """A notebook whose cells are rewritten, before it gets a cell for what they need."""

    source: Source
    raw: str
    text: str
    current: str  # the code of its cells, as they are now
    first: int  # the first cell that is rewritten
    imports: frozenset[str]
    helpers: frozenset[str]
    changes: tuple[Change, ...]
    refused: tuple[Change, ...]
    skipped: tuple[Change, ...]

    def finish(self, home: Home) -> FileResult:
        """With a cell in front of the first use: helpers, or the import of them."""
        style = Style.of(self.source.text)
        if home.path is None:
            _, missing, imports = extended(self.current, self.helpers, style)
            statements = self.imports | imports
        else:
            missing, statements = (), self.imports | {_import_from(home, self.helpers)}
        text = self.text
        if missing or statements:
            block = f"\n\n\n{definitions(missing, style)}" if missing else ""
            text = insert_cell(text, self.first, import_block(statements) + block)
        return FileResult(
            self.source.path,
            self.raw,
            text,
            self.changes,
            self.refused,
            self.skipped,
            self.helpers,
            home,
        )


def draft_notebook(
    project: Project, source: Source, raw: str, goal: Goal, left: Mapping[ChangeId, str]
) -> NotebookDraft:
    """Rewrite the cells of a notebook."""
    file = project.file(source.path, source)
    current, text, first = file, raw, 0
    matches: list[Match] = []
    refused: tuple[Change, ...] = ()
    skipped: tuple[Change, ...] = ()
    changes: tuple[Change, ...] = ()
    for number in range(PASSES):
        chosen, refusals = one_pass(current, goal, lambda *_: notebook_id(source.path), left)
        if not number:
            refused = _of_notebook(file, (match for match in refusals if not match.skipped))
            skipped = _of_notebook(file, (match for match in refusals if match.skipped))
            changes = _of_notebook(file, chosen)
        if not chosen:
            break
        matches += chosen
        edits = [edit for match in chosen for edit in match.edits]
        first = min([first or len(raw), *(edit.span.cell or 0 for edit in edits)])
        text = edit_cells(text, edits)
        current = File(read_source(source.path, text.encode()), project)
    helpers = frozenset(name for match in matches for name in match.helpers)
    imports = frozenset(line for match in matches for line in match.imports)
    code = current.source.text
    return NotebookDraft(
        source, raw, text, code, first, imports, helpers, changes, refused, skipped
    )


def _import_from(home: Home, names: Iterable[str]) -> str:
    return f"from {home.module} import {', '.join(sorted({bare(name) for name in names}))}"


def _of_notebook(file: File, matches: Iterable[Match]) -> tuple[Change, ...]:
    identity = notebook_id(file.path)
    return tuple(
        Change(
            identity, match.kind, file.span(match.node), file.brief(match.node), (), match.message
        )
        for match in matches
    )


def helper_module(existing: str, names: Iterable[str], style: Style, header: str = "") -> str:
    """The text of a package's module of helpers, with what is there kept."""
    if not existing.strip():
        return emit(names, style, header)
    text, missing, imports = extended(existing, names, style)
    if text == existing and not missing:
        return existing
    text = add_imports(text, imports)
    return f"{text.rstrip()}\n\n\n{definitions(missing, style)}" if missing else text


def _finished(
    text: str, names: frozenset[str], statements: set[str], home: Home, optional: bool
) -> str:
    """The rewritten text with its imports in order, and its helpers if they live in it."""
    if home.path is None:
        style = Style.of(text)
        text, missing, imports = extended(text, names, style)
        text = add_imports(text, statements | imports, home.own)
        if missing:
            text = add_definitions(text, definitions(missing, style), {h.name for h in missing})
        return text
    if optional:
        text = add_guarded(text, _import_from(home, names), map(bare, names))
        return add_imports(text, statements - {JAX}, home.own)
    together = [[name] for name in names] if has_one_name_per_line(text) else [names]
    lines = {_import_from(home, some) for some in together if some}
    return add_imports(text, statements | lines, home.own)


def _taken(text: str, names: frozenset[str]) -> str | None:
    """A name that the helpers would need and that the text gives to something else."""
    bound = Index(ast.parse(text)).module.names
    there = [node for name in names for node in bound.get(bare(name), ())]
    if any(isinstance(node, ast.FunctionDef) for node in there):
        return None  # an earlier migration wrote them
    helpers = [*map(bare, names), *(helper.name for helper in required(names))]
    return next((name for name in helpers if name in bound), None)
