"""A rewritten file before and after it gets what it needs: imports, and helpers or their import."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from shardlift.migrate.call_format import Style
from shardlift.migrate.changes import Change, ChangeId, notebook_id
from shardlift.migrate.goal import Goal
from shardlift.migrate.guarded_imports import add_guarded, is_optional
from shardlift.migrate.helpers import (
    definitions,
    extended,
    import_block,
    required,
)
from shardlift.migrate.home import Home, beside
from shardlift.migrate.imports import (
    add_definitions,
    add_imports,
    drop_unused,
    has_one_name_per_line,
    in_order,
)
from shardlift.migrate.names import JAX
from shardlift.migrate.notebook import edit_cells, insert_cell
from shardlift.migrate.passes import (
    PASSES,
    Rendering,
    one_pass,
)
from shardlift.migrate.results import FileResult
from shardlift.source.file import File
from shardlift.source.model import HelperRequest, Match
from shardlift.source.project import Project
from shardlift.source.scopes import Index
from shardlift.source.text import Source, read_source


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
    taken = _names_taken(text, helpers) if home.path is None else None
    if taken is not None and taken not in {request.name for request in helpers}:
        home = beside(source.path)  # only what the helpers need among themselves is in the way
    elif taken is not None:
        refused += tuple(replace(one, reason=f"the name `{taken}` is taken") for one in changes)
        return FileResult(source.path, source.text, source.text, (), refused, skipped)
    after = _finish(text, helpers, draft.imports, home, optional)
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
    helpers: frozenset[HelperRequest]
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
    helpers = frozenset(request for match in matches for request in match.helpers)
    imports = frozenset(line for match in matches for line in match.imports)
    code = current.source.text
    return NotebookDraft(
        source, raw, text, code, first, imports, helpers, changes, refused, skipped
    )


def _import_from(home: Home, requests: Iterable[HelperRequest]) -> str:
    names = sorted({request.name for request in requests})
    return f"from {home.module} import {', '.join(names)}"


def _of_notebook(file: File, matches: Iterable[Match]) -> tuple[Change, ...]:
    identity = notebook_id(file.path)
    return tuple(
        Change(
            identity, match.kind, file.span(match.node), file.brief(match.node), (), match.message
        )
        for match in matches
    )


def _finish(
    text: str,
    requests: frozenset[HelperRequest],
    statements: set[str],
    home: Home,
    optional: bool,
) -> str:
    """The rewritten text with its imports in order, and its helpers if they live in it."""
    if home.path is None:
        style = Style.of(text)
        text, missing, imports = extended(text, requests, style)
        names = {helper.name for helper in missing}
        text = add_imports(text, statements | imports, home.own, names)
        if missing:
            text = add_definitions(text, definitions(missing, style), names)
        return text
    if optional:
        text = add_guarded(text, _import_from(home, requests), {one.name for one in requests})
        return add_imports(text, statements - {JAX}, home.own)
    together = [[one] for one in requests] if has_one_name_per_line(text) else [requests]
    lines = {_import_from(home, some) for some in together if some}
    return add_imports(text, statements | lines, home.own)


def _names_taken(text: str, requests: frozenset[HelperRequest]) -> str | None:
    """A name that the helpers would need and that the text gives to something else."""
    bound = Index(ast.parse(text)).module.names
    asked = [request.name for request in requests]
    there = [node for name in asked for node in bound.get(name, ())]
    if any(isinstance(node, ast.FunctionDef) for node in there):
        return None  # an earlier migration wrote them
    helpers = [*asked, *(helper.name for helper in required(requests))]
    return next((name for name in helpers if name in bound), None)
