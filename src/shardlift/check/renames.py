"""Uses of names that JAX no longer has, and the edits that put the successor in their place."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from shardlift.check.deletions import delete_call, delete_function, delete_import, imports_jax
from shardlift.check.successor_calls import (
    as_instance,
    call_statement,
    flag_edit,
    is_rewritten_along,
    successor_call,
    successor_value,
)
from shardlift.source.file import File, remembered
from shardlift.source.guarded import guard_of
from shardlift.source.imports import drop_names, is_new_name, is_unused, move_names, uses_of
from shardlift.source.model import CHANGELOG, Edit, HelperRequest, Kind, Match, Rule
from shardlift.source.reaching import reaching_bindings
from shardlift.source.removed_names import (
    ALL,
    COPIED,
    LINEN_OF_JAX,
    WITH_IMPORT,
    GoneRows,
    Removed,
    all_gone,
    can_call,
    gone_rows,
    names,
    sentence,
)
from shardlift.source.scopes import FUNCTIONS, bound_name, has_star, position
from shardlift.source.values import External

Fix = tuple[tuple[Edit, ...], frozenset[str]]
_NO_FIX: Fix = (), frozenset()


def removed_rule(*, rows: tuple[Removed, ...], why: str = "", **parts: Any) -> Rule:
    """A rule for the uses of some removed names, which `fix` rewrites; `parts` are its own."""
    usual: dict[str, Any] = {
        "advice": "Change the code as the message says.",
        "reference": CHANGELOG,
        "rewritten_as": frozenset({Kind.NAME}),
    }
    visit = partial(gone, rows=rows, why=why)
    return Rule(names=names(rows), visit=visit, **usual | parts)


def gone(file: File, rows: tuple[Removed, ...], why: str = "") -> Iterator[Match]:
    """A match for each use of a name that the target no longer has."""
    for node, row in _uses(file, rows):
        if _guard(file, node, row) is None:
            # A name for how it is used, if that is not the row's successor.
            uses = uses_of(file, node) if isinstance(node, ast.alias) else [node]
            forms = (successor_call(file, use, row) for use in uses if isinstance(use, ast.expr))
            successor = next((form.successor for form in forms if form is not None), "")
            edits, imports = _fix(file, node, row)
            is_name = isinstance(node, ast.alias) and row.same
            written = replace(row, successor=".".join(importable(row))) if is_name else row
            text = sentence(written) + (f"; {why}" if why else "")
            helpers = _copies(file, node) if edits else frozenset()
            yield Match(node, text, edits, imports, helpers, name=row.name, successor=successor)


def guarded_uses(
    file: File, rows: tuple[Removed, ...]
) -> Iterator[tuple[ast.AST, Removed, ast.AST]]:
    """Each use of a removed name that a guard keeps away from the target, with the guard."""
    for node, row in _uses(file, rows):
        if (guard := _guard(file, node, row)) is not None:
            yield node, row, guard


def _guard(file: File, node: ast.AST, row: Removed) -> ast.AST | None:
    """What guards a use of a removed name; nothing if it is deleted with its guard.

    That is a try that does nothing but call the function, and nothing if that fails.
    """
    guard = guard_of(file, node, row.name, row.successor)
    if not row.is_deleted or not isinstance(guard, ast.Try) or guard.orelse or guard.finalbody:
        return guard
    handled = (statement for handler in guard.handlers for statement in handler.body)
    is_idle = all(isinstance(statement, ast.Pass) for statement in handled)
    return None if is_idle and guard.body == [call_statement(file, node)] else guard


def _uses(file: File, rows: tuple[Removed, ...]) -> Iterator[tuple[ast.AST, Removed]]:
    """Every place where the file names one of the rows that are gone, once."""
    gone = gone_rows(names(rows), file.project.settings)
    yield from _attributes(file, gone)
    yield from _imports(file, gone.by_name)


def _fix(file: File, node: ast.AST, row: Removed) -> Fix:
    """The safe edits, and the imports that they need."""
    if isinstance(node, ast.Attribute):
        return _attribute_fix(file, node, row)
    statement = file.index.parents.get(node)
    assert isinstance(node, ast.alias)
    if row.is_deleted:
        assert isinstance(statement, ast.Import | ast.ImportFrom)
        return delete_import(file, statement, node, row), frozenset()
    if isinstance(statement, ast.ImportFrom):
        return _from_elsewhere(file, statement, node, row)
    assert isinstance(statement, ast.Import)
    if row.same and node.name.startswith(row.name):
        new = row.successor + node.name[len(row.name) :]
        return (file.replace(node, f"{new} as {node.asname}" if node.asname else new),), frozenset()
    if is_unused(file, node) or _is_unused_module(file, statement, node):
        return drop_names(file, statement, [node]), frozenset()
    return _without_module(file, node)


def _copies(file: File, node: ast.AST) -> frozenset[HelperRequest]:
    """The functions that a file gets a copy of with the fix of a node."""
    statement = file.index.parents.get(node)
    names: list[str] = []
    if isinstance(node, ast.Attribute) and _is_copied(file, file.name(node) or ""):
        names = [node.attr]
    elif isinstance(statement, ast.ImportFrom):
        module = statement.module
        copied = [a for a in statement.names if _is_copied(file, f"{module}.{a.name}")]
        names = [alias.name for alias in copied if not is_unused(file, alias)]
    return frozenset(map(HelperRequest, names))


def _is_copied(file: File, name: str) -> bool:
    """Whether a file gets a copy of a name: of flax's, if it needs no other that is left."""
    return name in COPIED and (not name.startswith("flax.") or _lacks_no_other(file))


@remembered
def _lacks_no_other(file: File) -> bool:
    rows, statements = all_gone(file.project.settings), file.index.nodes(ast.ImportFrom)
    names = {f"{one.module}.{alias.name}" for one in statements for alias in one.names}
    names |= {file.name(node) or "" for node in file.index.nodes(ast.Attribute)}
    return all(
        name in rows or name.removeprefix("flax.nn.") in LINEN_OF_JAX
        for name in names
        if name.startswith(("flax.optim.", "flax.nn.", "flax.deprecated."))
    )


def _is_unused_module(file: File, statement: ast.Import, alias: ast.alias) -> bool:
    """Whether nothing needs `import jax.a.b` that is not renamed, and `jax` is imported anyway."""
    root, rows = alias.name.partition(".")[0], all_gone(file.project.settings)
    if alias.asname or (root == "jax" and not imports_jax(file, statement)):
        return False
    nodes = file.index.nodes(ast.Attribute)
    uses = [file.index.parents[node] for node in nodes if file.name(node) == alias.name]
    if root != "jax" and len(uses) != len(file.index.names.get(root, ())):
        return False
    renamed = ((use, rows.get(file.name(use) or "")) for use in uses)
    return all(
        isinstance(use, ast.Attribute) and row and row.same and _renamed(file, use, row)[0]
        for use, row in renamed
    )


def _attribute_fix(file: File, node: ast.Attribute, row: Removed) -> Fix:
    if row.name == "flax.nn" and getattr(file.index.parents[node], "attr", "") in LINEN_OF_JAX:
        return (file.replace(node, f"{file.text(node.value)}.linen"),), frozenset()
    if row.same:
        return _renamed(file, node, row)
    if row.name in COPIED:
        is_free = _is_copied(file, row.name) and is_new_name(file, node.attr)
        return ((file.replace(node, node.attr),), frozenset()) if is_free else _NO_FIX
    if row.is_deleted:
        statement = call_statement(file, node)
        if statement is None:
            return _NO_FIX
        edits = delete_function(file, statement) or (delete_call(file, statement, row),)
        return edits, frozenset()
    is_flag = row.name.startswith("jax.config.") and row.name.endswith(".FLAGS")
    edit = flag_edit(file, node) if is_flag else successor_value(file, node, row)
    if edit is not None:
        return (edit,), frozenset()
    use = successor_call(file, node, row)
    if use is None or not use.successor:
        return (use.edits if use is not None else ()), frozenset()
    return _renamed(file, node, replace(row, same=True))


def _renamed(file: File, node: ast.Attribute, row: Removed) -> Fix:
    """The successor's name, or the shorter call that does what is done with the result."""
    use = successor_call(file, node, row)
    more = use.edits if use is not None else as_instance(file, node, row) or ()
    new = replace(row, successor=use.successor if use is not None else row.successor)
    edits, imports = spell_successor(file, node, new)
    return ((*edits, *more), imports) if edits else _NO_FIX


def _without_module(file: File, alias: ast.alias) -> Fix:
    """Take out the import of a module if all that is used of it has successors."""
    statement = file.index.parents[alias]
    name = bound_name(alias)
    if not isinstance(statement, ast.ImportFrom | ast.Import) or name == "jax":
        return _NO_FIX
    rows = all_gone(file.project.settings)
    imports: set[str] = set()
    uses = file.index.names.get(name, [])
    for use in uses:
        parent = file.index.parents[use]
        row = rows.get(file.name(parent) or "")
        if row is None or not isinstance(parent, ast.Attribute):
            return _NO_FIX
        edits, needed = _attribute_fix(file, parent, row)
        if not edits:
            return _NO_FIX
        imports |= needed
    return (drop_names(file, statement, [alias]), frozenset(imports)) if uses else _NO_FIX


def _from_elsewhere(file: File, statement: ast.ImportFrom, asked: ast.alias, row: Removed) -> Fix:
    """The edits for all the names of a statement that can move or go: they go together."""
    module = statement.module or ""
    if row.same and (module == row.name or module.startswith(row.name + ".")):
        start = statement.lineno, statement.col_offset + len("from ")
        end = start[0], start[1] + len(module)
        if file.lines[start[0] - 1].encode()[start[1] : end[1]] != module.encode():
            return _NO_FIX
        new = row.successor + module[len(row.name) :]
        return (Edit(file.stretch(*start, *end), new),), frozenset()
    rows = all_gone(file.project.settings)
    moves: dict[ast.alias, _Move] = {}
    for alias in statement.names:
        removed = _nearest(f"{module}.{alias.name}", rows)
        move = _move(file, alias, removed) if removed is not None else None
        if move is not None:
            moves[alias] = move
    if asked not in moves:
        return _NO_FIX
    to = {alias: move.to for alias, move in moves.items()}
    called = {alias: move.called for alias, move in moves.items() if move.called}
    edits = [edit for move in moves.values() for edit in move.edits]
    imports = frozenset(line for move in moves.values() for line in move.imports)
    return (*move_names(file, statement, to, called), *edits), imports


@dataclass(frozen=True)
class _Move:
    """What becomes of one imported name."""

    to: tuple[str, str] | None = None  # the module and the name to import; None: no import
    called: str = ""  # what the file calls it from now on, if it is another name
    edits: tuple[Edit, ...] = ()
    imports: frozenset[str] = frozenset()


def _move(file: File, alias: ast.alias, row: Removed) -> _Move | None:
    """Where to import a name from, and the edits at its uses; None if it must stay."""
    every = uses_of(file, alias)
    uses = [use for use in every if not is_rewritten_along(file, use)]
    if every and not uses:
        return _Move()
    if row.same and row.name.endswith(f".{alias.name}"):
        if not all(_fits(file, use, row) for use in uses):
            return None
        module, name = importable(row)
        if module in ("functools", "math", "typing"):  # among the imports of the standard library
            bound = f" as {alias.asname}" if alias.asname else ""
            return _Move(imports=frozenset({f"from {module} import {name}{bound}"}))
        edits = tuple(edit for use in uses for edit in as_instance(file, use, row) or ())
        if alias.asname or name == alias.name or not uses or not is_new_name(file, name):
            return _Move((module, name), "", edits)
        return _Move((module, name), name, (*edits, *(file.replace(use, name) for use in uses)))
    if is_unused(file, alias) or (
        _is_copied(file, row.name) and alias.asname in (None, alias.name)
    ):
        return _Move()
    if row.successor == "flax.linen" and alias.name == "nn" and every:
        used = {getattr(file.index.parents.get(use), "attr", "") for use in every}
        return _Move(("flax", "linen")) if used <= LINEN_OF_JAX else None
    forms = [successor_call(file, use, row) for use in uses]
    successors = {form.successor for form in forms if form is not None}
    if None in forms or len(successors) != 1:
        edits, imports = _without_module(file, alias)
        return _Move(None, "", (), imports) if edits else None
    edits = tuple(edit for form in forms if form is not None for edit in form.edits)
    if successors == {""}:
        return _Move(None, "", edits)
    successor = successors.pop()
    module, _, name = successor.rpartition(".")
    if module == "jax.debug":  # whose names are those of builtins
        full = (file.replace(use, successor) for use in uses)
        return _Move(None, "", (*edits, *full), frozenset({"import jax"}))
    if name != alias.name and not is_new_name(file, name) and not _means(file, name, successor):
        return None
    return _Move((module, name), name, (*edits, *(file.replace(use, name) for use in uses)))


def _means(file: File, name: str, successor: str) -> bool:
    """Whether a name can only be a successor, or a removed name that becomes it."""
    paths = {successor} | {row.name for row in ALL if row.successor == successor}
    scopes = [scope for scope in file.index.opens.values() if name in scope.names]
    bound = file.index.module.names.get(name, [])
    values = [file.resolver.bound(node) for node in bound if isinstance(node, ast.alias)]
    only = all(value in [(External(path),) for path in paths] for value in values)
    return scopes == [file.index.module] and len(values) == len(bound) and only


def importable(row: Removed) -> tuple[str, str]:
    """The module and the name under which a successor can be imported."""
    # jax.tree is a module whose functions have no names of their own; jax.tree_util's have.
    module, _, name = row.successor.replace("jax.tree.", "jax.tree_util.tree_").rpartition(".")
    return module, name


def spell_successor(file: File, node: ast.Attribute, row: Removed) -> Fix:
    """The successor by a name that the file already has, or by its full one with an import."""
    if not _fits(file, node, row):
        return _NO_FIX
    index = file.index
    old_base, new_base = row.name.rpartition(".")[0], row.successor.rpartition(".")[0]
    written = file.text(node.value)
    if new_base == old_base:
        text = f"{written}.{row.successor.rpartition('.')[2]}"
        return (file.replace(node, text),), frozenset()
    if new_base.startswith(old_base + ".") and new_base in WITH_IMPORT:
        return (file.replace(node, written + row.successor[len(old_base) :]),), frozenset()
    if swapped := _other_module(file, node, row):
        return swapped
    package, _, module = old_base.rpartition(".")
    along = known_as(file, node, old_base) or ""  # `from jax import core`, which moves, too
    is_like_it = new_base.endswith(f".{module}") and (package, module, along) in index.from_imports
    if is_like_it and index.names.get(along) and _all_move(file, along, new_base):
        name = row.successor.removeprefix(new_base)
        return (file.replace(node, along + name),), frozenset()
    for path in (row.successor, new_base):
        if (known := known_as(file, node, path)) is not None:
            text = known + row.successor.removeprefix(path)
            return (file.replace(node, text),), frozenset()
    root, name = row.successor.partition(".")[0], row.successor.rpartition(".")[2]
    if root == "typing" and is_new_name(file, name):
        return (file.replace(node, name),), frozenset({f"from typing import {name}"})
    if file.exported(root) not in ((), (External(root),)) or _is_local(file, node, root):
        return _NO_FIX
    there = new_base in WITH_IMPORT and _is_bound_above(file, node, root)
    needed = root if new_base in WITH_IMPORT else new_base
    imports = frozenset() if there else frozenset({f"import {needed}"})
    return (file.replace(node, row.successor),), imports


def _fits(file: File, use: ast.AST, row: Removed) -> bool:
    """Whether the successor takes the arguments that a removed function is called with here."""
    if isinstance(use, ast.expr) and as_instance(file, use, row) is None:
        return False
    call = file.index.parents.get(use)
    if not isinstance(call, ast.Call) or call.func is not use:
        return True
    positional = 99 if has_star(call.args) else len(call.args)  # `f(*args)`: any number
    return can_call(row, positional, [keyword.arg or "**" for keyword in call.keywords])


def known_as(file: File, node: ast.AST, path: str) -> str | None:
    """What a file calls a module, or a name of one, at the place of a node: `jnp`."""
    for alias in file.index.only_imports:
        is_it = alias.name != "jax" and file.resolver.bound(alias) == (External(path),)
        if is_it and not _is_local(file, node, bound_name(alias)):
            return bound_name(alias)
    return None


def _other_module(file: File, node: ast.Attribute, row: Removed) -> Fix | None:
    """`from jax.extend import core` for `from jax import core`, or beside it as `jex_core`."""
    package, _, module = row.successor.rpartition(".")[0].rpartition(".")
    bound = reaching_bindings(file.index, node.value) if isinstance(node.value, ast.Name) else []
    alias = bound[0] if len(bound) == 1 else None
    statement = file.index.parents.get(alias) if isinstance(alias, ast.alias) else None
    if not isinstance(alias, ast.alias) or not isinstance(statement, ast.ImportFrom):
        return None
    if alias.name != module or statement.level:
        return None
    if _all_move(file, bound_name(alias), f"{package}.{module}"):
        return move_names(file, statement, {alias: (package, module)}), frozenset()
    short = f"jex_{module}"
    if package != "jax.extend" or not is_new_name(file, short):
        return None
    edit = file.replace(node.value, short)
    return (edit,), frozenset({f"from {package} import {module} as {short}"})


@remembered
def _all_move(file: File, name: str, new: str) -> bool:
    """Whether all that a file uses of a module is in another one now, under the same names."""
    rows = all_gone(file.project.settings)
    parents = [file.index.parents[use] for use in file.index.names.get(name, ())]
    moves = [(parent, rows.get(file.name(parent) or "")) for parent in parents]
    return all(
        row is not None
        and row.same
        and row.successor == f"{new}.{getattr(use, 'attr', '')}"
        and _fits(file, use, row)
        for use, row in moves
    )


def _is_local(file: File, node: ast.AST, name: str) -> bool:
    """Whether a function around a node has another thing of that name."""
    scopes = (file.index.opens.get(parent) for parent in file.index.ancestors(node))
    return any(name in s.names for s in scopes if s is not None and s.parent is not None)


def _is_bound_above(file: File, node: ast.AST, name: str) -> bool:
    """Whether a module has a name where a node stands: in a function, wherever it is bound."""
    gone = all_gone(file.project.settings)
    bound = [
        one
        for one in file.index.module.names.get(name, ())
        if not (isinstance(one, ast.alias) and _nearest(one.name, gone))
    ]
    if any(isinstance(around, FUNCTIONS) for around in file.index.ancestors(node)):
        return bool(bound)
    return any(position(one) < position(node) for one in bound)


def _attributes(file: File, gone: GoneRows) -> Iterator[tuple[ast.AST, Removed]]:
    known, rows = file.index.attributes, all_gone(file.project.settings)
    last = gone.last & known.keys()
    for node in sorted((node for name in last for node in known[name]), key=position):
        row = gone.by_name.get(file.name(node) or "")
        if row is None:
            continue
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            continue  # `f().tree_map` is something else
        parent = file.index.parents.get(node)
        if isinstance(parent, ast.Attribute) and (file.name(parent) or "") in rows:
            continue  # a module, on the way to a name of it that has a row of its own
        # Otherwise a module of the project has it.
        if f"{file.name(node.value)}.{node.attr}" == row.name:
            yield node, row


def _imports(file: File, by_name: dict[str, Removed]) -> Iterator[tuple[ast.AST, Removed]]:
    for statement in file.index.nodes(ast.ImportFrom):
        module = statement.module or ""
        if statement.level or not module.startswith(("jax", "flax")):
            continue
        whole = _nearest(module, by_name)
        for alias in statement.names:
            row = by_name.get(f"{module}.{alias.name}")
            if row is None:
                row, whole = whole, None  # the module itself is gone: once is enough
            if row is not None:
                yield alias, row
    for plain in file.index.nodes(ast.Import):
        for alias in plain.names:
            if (row := _nearest(alias.name, by_name)) is not None:
                yield alias, row


def _nearest(name: str, by_name: dict[str, Removed]) -> Removed | None:
    """The row of a name, or of the nearest module that contains it."""
    while name and name not in by_name:
        name = name.rpartition(".")[0]
    return by_name.get(name)
