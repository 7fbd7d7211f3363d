"""Uses of names that JAX no longer has, and the edits that put the successor in their place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.imports import bound_name, dropped, moved
from shardlift.source.model import Edit, Match
from shardlift.source.reaching import reaching
from shardlift.source.removed_names import TABLE, Removed, sentence
from shardlift.source.values import External

# The modules that `import jax` brings with it.
_WITH_JAX = frozenset(
    (
        *("jax", "jax.core", "jax.lax", "jax.nn", "jax.numpy", "jax.ops", "jax.random"),
        *("jax.sharding", "jax.tree", "jax.tree_util"),
    )
)
Fix = tuple[tuple[Edit, ...], frozenset[str]]
_NO_FIX: Fix = (), frozenset()


def uses(file: File, rows: tuple[Removed, ...]) -> Iterator[tuple[ast.AST, Removed]]:
    """Every place where the file names one of the rows, once, unless a guard stands around it."""
    for node, row in _attributes(file, rows):
        if not is_guarded(file, node):
            yield node, row
    for node, row in _imports(file, rows):
        if not is_guarded(file, node):
            yield node, row


def gone(file: File, rows: tuple[Removed, ...], why: str = "") -> Iterator[Match]:
    """A match for each use of a name that the target no longer has."""
    for node, row in uses(file, rows):
        if row.gone <= file.target:
            text = sentence(row) + (f"; {why}" if why else "")
            yield Match(node, text, *fix(file, node, row))


def fix(file: File, node: ast.AST, row: Removed) -> Fix:
    """The safe edits, and the imports that they need, where the successor is the same thing."""
    if not row.same:
        return _without_module(file, node) if isinstance(node, ast.alias) else _NO_FIX
    if isinstance(node, ast.Attribute):
        return _respelled(file, node, row)
    statement = file.index.parents.get(node)
    if isinstance(node, ast.alias) and isinstance(statement, ast.ImportFrom):
        return _from_elsewhere(file, statement, row), frozenset()
    if isinstance(node, ast.alias) and node.name.startswith(row.name):
        new = row.successor + node.name[len(row.name) :]
        return (file.replace(node, f"{new} as {node.asname}" if node.asname else new),), frozenset()
    return _NO_FIX


def _without_module(file: File, alias: ast.alias) -> Fix:
    """Take out the import of a module if all that is used of it has successors."""
    statement = file.index.parents[alias]
    name = bound_name(alias)
    if not isinstance(statement, ast.ImportFrom | ast.Import) or name == "jax":
        return _NO_FIX
    rows = {row.name: row for row in TABLE if row.same and row.gone <= file.target}
    imports: set[str] = set()
    uses = [node for node in file.index.nodes(ast.Name) if node.id == name]
    for use in uses:
        parent = file.index.parents[use]
        row = rows.get(file.name(parent) or "")
        if row is None or not isinstance(parent, ast.Attribute):
            return _NO_FIX
        edits, needed = _respelled(file, parent, row)
        if not edits:
            return _NO_FIX
        imports |= needed
    return (dropped(file, statement, [alias]), frozenset(imports)) if uses else _NO_FIX


def _from_elsewhere(file: File, statement: ast.ImportFrom, row: Removed) -> tuple[Edit, ...]:
    """The edits for all the names of a statement that have moved: they go together."""
    module = statement.module or ""
    if module == row.name or module.startswith(row.name + "."):
        start = statement.lineno, statement.col_offset + len("from ")
        end = start[0], start[1] + len(module)
        if file.lines[start[0] - 1].encode()[start[1] : end[1]] != module.encode():
            return ()
        return (Edit(file.stretch(*start, *end), row.successor + module[len(row.name) :]),)
    successors = {r.name: importable(r) for r in TABLE if r.same and r.gone <= file.target}
    to = {
        alias: successors[f"{module}.{alias.name}"]
        for alias in statement.names
        if f"{module}.{alias.name}" in successors
    }
    return moved(file, statement, to)


def importable(row: Removed) -> tuple[str, str]:
    """The module and the name under which a successor can be imported."""
    # jax.tree is a module whose functions have no names of their own; jax.tree_util's have.
    module, _, name = row.successor.replace("jax.tree.", "jax.tree_util.tree_").rpartition(".")
    return module, name


def _respelled(file: File, node: ast.Attribute, row: Removed) -> Fix:
    """The successor by a name that the file already has, or by its full one with an import."""
    old_base, new_base = row.name.rpartition(".")[0], row.successor.rpartition(".")[0]
    written = file.text(node.value)
    if new_base == old_base:
        text = f"{written}.{row.successor.rpartition('.')[2]}"
        return (file.replace(node, text),), frozenset()
    if new_base.startswith(old_base + ".") and new_base in _WITH_JAX:
        return (file.replace(node, written + row.successor[len(old_base) :]),), frozenset()
    swapped = _other_module(file, node, row)
    if swapped:
        return swapped, frozenset()
    root = row.successor.partition(".")[0]
    if file.exported(root) not in ((), (External(root),)) or _is_local(file, node, root):
        return _NO_FIX
    there = new_base in _WITH_JAX and bool(file.exported(root))
    needed = root if new_base in _WITH_JAX else new_base
    imports = frozenset() if there else frozenset({f"import {needed}"})
    return (file.replace(node, row.successor),), imports


def _other_module(file: File, node: ast.Attribute, row: Removed) -> tuple[Edit, ...]:
    """`from jax.extend import core` for `from jax import core`, if that does for all uses."""
    new = row.successor.rpartition(".")[0]
    bound = reaching(file.index, node.value) if isinstance(node.value, ast.Name) else []
    alias = bound[0] if len(bound) == 1 else None
    statement = file.index.parents.get(alias) if isinstance(alias, ast.alias) else None
    if not isinstance(alias, ast.alias) or not isinstance(statement, ast.ImportFrom):
        return ()
    if alias.name != new.rpartition(".")[2] or statement.level:
        return ()
    moves = {r.name: r.successor for r in TABLE if r.same and r.gone <= file.target}
    for use in file.index.nodes(ast.Name):
        if use.id == bound_name(alias):
            parent = file.index.parents[use]
            ending = getattr(parent, "attr", "")
            if moves.get(file.name(parent) or "") != f"{new}.{ending}":
                return ()
    return moved(file, statement, {alias: (new.rpartition(".")[0], alias.name)})


def _is_local(file: File, node: ast.AST, name: str) -> bool:
    """Whether a function around a node has another thing of that name."""
    scopes = (file.index.opens.get(parent) for parent in file.index.ancestors(node))
    return any(name in s.names for s in scopes if s is not None and s.parent is not None)


def _attributes(file: File, rows: tuple[Removed, ...]) -> Iterator[tuple[ast.AST, Removed]]:
    by_name = {row.name: row for row in rows}
    last = {name.rpartition(".")[2] for name in by_name}
    for node in file.index.nodes(ast.Attribute):
        if node.attr in last and isinstance(node.ctx, ast.Load):
            row = by_name.get(file.name(node) or "")
            if row is not None and _root_is_name(node) and not _leads_on(file, node, by_name):
                yield node, row


def _leads_on(file: File, node: ast.Attribute, by_name: dict[str, Removed]) -> bool:
    """Whether a module is named on the way to a name of it that has a row of its own."""
    parent = file.index.parents.get(node)
    return isinstance(parent, ast.Attribute) and (file.name(parent) or "") in by_name


def _root_is_name(node: ast.Attribute) -> bool:
    """Whether the chain is names all the way down: `f().tree_map` is something else."""
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name)


def _imports(file: File, rows: tuple[Removed, ...]) -> Iterator[tuple[ast.AST, Removed]]:
    by_name = {row.name: row for row in rows}
    for statement in file.index.nodes(ast.ImportFrom):
        if statement.level or not (statement.module or "").startswith("jax"):
            continue
        module = statement.module or ""
        whole = by_name.get(module) or _inside(module, by_name)
        for alias in statement.names:
            row = by_name.get(f"{module}.{alias.name}")
            if row is not None:
                yield alias, row
            elif whole is not None:
                yield alias, whole
                whole = None  # the module itself is gone: once is enough
    for plain in file.index.nodes(ast.Import):
        for alias in plain.names:
            row = by_name.get(alias.name) or _inside(alias.name, by_name)
            if row is not None:
                yield alias, row


def _inside(module: str, by_name: dict[str, Removed]) -> Removed | None:
    while module:
        module = module.rpartition(".")[0]
        if module in by_name:
            return by_name[module]
    return None
