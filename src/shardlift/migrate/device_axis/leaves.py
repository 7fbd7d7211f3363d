"""Which leaf of an output an expression is: `params["w"]`, after `params = state.params`."""

from __future__ import annotations

import ast

from shardlift.migrate.device_axis.cells import Key
from shardlift.source.file import File
from shardlift.source.reaching import all_reaching_bindings

_MUTATORS = frozenset({"update", "pop", "popitem", "setdefault", "clear"})


def trace_leaf(file: File, node: ast.expr) -> tuple[ast.Call, tuple[Key, ...]] | None:
    """The call that an expression is read from, and its path in what is returned.

    None if the call is not certain, or if something is put into the trees on the way.
    """
    path, names = list[Key](), set[str]()
    while True:
        if isinstance(node, ast.Name):
            names.add(node.id)
            node = file.definition(node)
        if isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
        elif isinstance(node, ast.Subscript) and _is_key(node.slice):
            path.insert(0, node.slice.value)  # type: ignore[attr-defined]
        else:
            break
        node = node.value
    found = _unpacked(file, node) if isinstance(node, ast.Name) else None
    if found is None or not path or _is_changed(file, names):
        return None
    call, number = found
    return call, (number, *path)


def _is_key(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _unpacked(file: File, name: ast.Name) -> tuple[ast.Call, int] | None:
    """The call whose output is unpacked into a name, and the number of the element."""
    bound = all_reaching_bindings(file.index, name)
    target = bound[0] if len(bound) == 1 else None
    around = file.index.parents.get(target) if target is not None else None
    statement = file.index.parents.get(around) if isinstance(around, ast.Tuple) else None
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    assert isinstance(around, ast.Tuple)
    is_plain = all(isinstance(one, ast.Name) for one in around.elts)
    return (statement.value, around.elts.index(target)) if is_plain else None  # type: ignore[arg-type]


def _is_changed(file: File, names: set[str]) -> bool:
    """Whether something is put into one of the trees, or taken out of it."""
    nodes: list[ast.Subscript | ast.Attribute] = [*file.index.nodes(ast.Subscript)]
    nodes += file.index.nodes(ast.Attribute)
    changed = [one.value for one in nodes if not isinstance(one.ctx, ast.Load)]
    for call in file.index.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in _MUTATORS:
            changed.append(call.func.value)
    return any(
        isinstance(inner, ast.Name) and inner.id in names
        for one in changed
        for inner in ast.walk(one)
    )
