"""A rewritten file before and after it gets what it needs: imports, and helpers or their import."""

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from shardlift.rewrite import notebook
from shardlift.rewrite.call_format import Style
from shardlift.rewrite.helpers import (
    definitions,
    emit,
    extended,
    import_block,
    import_key,
    imported_name,
    required,
)
from shardlift.rewrite.home import Home, beside
from shardlift.rewrite.import_order import in_order, module_of
from shardlift.rewrite.imports import (
    OPTIONAL,
    TopLevel,
    add_definitions,
    add_imports,
    bound_names,
    drop_unused,
    is_optional,
    not_there,
    unused_imports,
)
from shardlift.rewrite.layout import Exists
from shardlift.rewrite.passes import Rendering
from shardlift.rewrite.results import FileResult
from shardlift.source.model import Edit, HelperRequest, Span
from shardlift.source.notebook import Cells
from shardlift.source.scopes import Import, grouped, index_of
from shardlift.source.text import read_source


def finish(draft: Rendering, home: Home) -> FileResult:
    """A rewritten file with its imports, and with its helpers if it has no other home for them."""
    if draft.raw is not None:
        return _finish_notebook(draft, home)
    source, text, helpers = draft.before, draft.text, frozenset(draft.helpers)
    before, refused, skipped = source.text, tuple(draft.refused), tuple(draft.skipped)
    unchanged = FileResult(source.path, before, before, (), refused, skipped)
    if text == before:
        return unchanged
    taken = _names_taken(text, helpers) if home.path is None else None
    if taken is not None and taken not in {request.name for request in helpers}:
        home = beside(source.path)  # only what the helpers need among themselves is in the way
    elif taken is not None or (helpers and is_optional(index_of(text))):
        reason = f"the name `{taken}` is taken" if taken is not None else OPTIONAL
        refused += tuple(replace(one, reason=reason) for one in draft.changes)
        return replace(unchanged, refused=refused)
    after = _finish(text, helpers, draft.imports, home)
    if not source.path.endswith("__init__.py"):
        after = in_order(before, drop_unused(before, after))
    if not before.startswith(("\n", "\r")):
        after = after.lstrip("\r\n")  # the blank line after an import that was the first
    made = tuple(draft.changes)
    return replace(unchanged, after=after, rewritten=made, helpers=helpers, home=home)


def _finish_notebook(draft: Rendering, home: Home) -> FileResult:
    """A rewritten notebook with its helpers in front of the first use."""
    source, helpers = draft.before, frozenset(draft.helpers)
    before = draft.document
    assert before is not None
    assert draft.raw is not None
    emptied = notebook.emptied_cells(before, draft.raw)
    text = notebook.without_cells(draft.raw, emptied)
    style = Style.of(source.text)
    asked = frozenset[HelperRequest]() if home.path else helpers
    _, missing, imports = extended(draft.text, asked, style)
    names = {one.name for one in helpers} | {one.name for one in missing}
    if home.path:
        imports.add(f"from {home.module} import {', '.join(sorted(names))}")
    statements = draft.imports | not_there(draft.text, imports, names)
    if missing or statements:
        block = f"\n\n\n{definitions(missing, style)}" if missing else ""
        names = {one.name for one in helpers} | {n for s in draft.imports for n in bound_names(s)}
        top = TopLevel(draft.text)
        cells = draft.source.cells
        assert cells is not None
        kept = tuple(n - sum(one < n for one in emptied) for n in cells.numbers)
        cells = replace(cells, numbers=kept)
        at = cells.locate(max(top.first_use(names) or 1, top.after_set_up()))
        begins = any(cells.locate(one.lineno) == at for one in top.body)
        edits = _beside(home.module.partition(".")[0] or "jax", top, cells, names, statements)
        if missing and edits and edits[0].span.cell == at[0]:
            edits = []
        elif begins and not missing and not edits:  # no cell of its own
            edits = [Edit(Span(at[1], 0, at[1], 0, at[0]), f"{import_block(statements)}\n")]
        new = f"{import_block([] if edits else statements)}{block}".lstrip("\n")
        text = notebook.edit_cells(notebook.insert_block(text, at, new) if new else text, edits)
    after = read_source(source.path, text.encode())
    if after.cells is not None and not after.cells.broken:
        unused = unused_imports(source.text, after, notebook.words_of_magics(text))
        text = notebook.edit_cells(text, unused, empties=False)
    changes, refused, skipped = tuple(draft.changes), tuple(draft.refused), tuple(draft.skipped)
    return FileResult(source.path, before, text, changes, refused, skipped, helpers, home)


def _beside(
    package: str, top: TopLevel, cells: Cells, names: set[str], statements: Iterable[str]
) -> list[Edit]:
    """What puts imports where the notebook imports a package, if they are not needed before."""
    made = (one for one in top.before_use(names) if isinstance(one, Import))
    imports = [(cells.locate(x.lineno), x) for x in made if module_of(x) != "__future__"]
    of_jax = (at for at, one in imports if module_of(one).partition(".")[0] == package)
    first = number, _ = next(of_jax, (0, 0))
    there = [(at, one) for at, one in imports if at[0] == number and not one.col_offset]
    edits: list[Edit] = []
    for new in sorted(statements, key=import_key) if there else ():
        section, *_ = key = import_key(new)
        # What is above that import may set the environment, or the path, for it.
        near = [one for at, one in there if at >= first or not section]
        above = [one for one in near if (section,) <= import_key(ast.unparse(one)) <= key]
        head, _, name = new.partition(" import ")
        lines = {one: top.lines[(one.end_lineno or 0) - 1].rstrip("\r\n") for one in above}
        same = [one for one in above if re.fullmatch(rf"{head} import [\w, ]+", lines[one])]
        text, line, column = f"{new}\n", near[0].lineno, 0
        for one in (same or above)[-1:]:
            text = f", {name}" if same else f"\n{new}"
            line, column = one.end_lineno or 0, len(lines[one])
        at = cells.locate(line)[1], column
        edits.append(Edit(Span(*at, *at, number), text))
    return edits


def _finish(text: str, requests: frozenset[HelperRequest], statements: set[str], home: Home) -> str:
    """The rewritten text with its imports in order, and its helpers if they live in it."""
    if home.path is None:
        style = Style.of_helpers(text)
        text, missing, imports = extended(text, requests, style)
        names = {helper.name for helper in missing}
        text = add_imports(text, statements | imports, home.own, names)
        if missing:
            text = add_definitions(text, definitions(missing, style), names)
        return text
    asked = {f"from {home.module} import {request.name}" for request in requests}
    return add_imports(text, statements | asked, home.own)


def _names_taken(text: str, requests: frozenset[HelperRequest]) -> str | None:
    """A name that the helpers would need and that the text gives to something else."""
    index = index_of(text)
    bound = index.module.names
    asked = [request.name for request in requests]
    there = [node for name in asked for node in bound.get(name, ())]
    if any(isinstance(node, ast.FunctionDef) for node in there):
        return None  # an earlier migration wrote them
    needed = required(requests)
    helpers = [*asked, *(helper.name for helper in needed)]
    module = "functools"
    if any(f"{module}." in helper.source for helper in needed) and any(
        imported_name(index, node) != module for node in bound.get(module, ())
    ):
        return module
    return next((name for name in helpers if name in bound), None)


def helper_modules(
    results: Sequence[FileResult], read: Callable[[str], bytes], exists: Exists
) -> tuple[FileResult, ...]:
    """The modules of helpers that these files import, with all that the files need."""
    users = grouped((r for r in results if r.helpers), lambda result: result.home.path)
    modules: list[FileResult] = []
    rewritten = {result.path: result.after for result in results}
    for path, files in users.items():
        if path is None:
            continue  # they hold their own
        before = read_source(path, read(path)).text if exists(path) else ""
        requests = frozenset[HelperRequest]().union(*(file.helpers for file in files))
        texts = [file.before for file in files if file.path.endswith(".py")]
        style = Style.of_helpers(before or "\n".join(texts))
        text = helper_module(rewritten.get(path, before), requests, style)
        modules.append(FileResult(path, before, text))
    return tuple(modules)


def helper_module(existing: str, requests: Iterable[HelperRequest], style: Style) -> str:
    """The text of a package's module of helpers, with what is there kept."""
    if not existing.strip():
        return emit(requests, style)
    text, missing, imports = extended(existing, requests, style)
    if text == existing and not missing:
        return existing
    text = add_imports(text, imports)
    return f"{text.rstrip()}\n\n\n{definitions(missing, style)}" if missing else text
