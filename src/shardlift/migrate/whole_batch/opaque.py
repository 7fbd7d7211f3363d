"""Whether code that is not followed could tell the devices apart.

A function of values that are the same on all devices returns the same on all devices, whatever it
does, unless it asks for its device: by a collective, or through a value around it.
"""

from __future__ import annotations

import ast

from shardlift.migrate.device_axis.cells import Place
from shardlift.migrate.whole_batch.functions import COLLECTIVES
from shardlift.migrate.whole_batch.values import Code, Native, Value, is_same
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.values import Known


def what_differs(code: Code) -> str | None:
    """What in a function may differ between devices; None if nothing does."""
    seen: set[ast.AST] = set()
    waiting = [code]
    while waiting:
        one = waiting.pop()
        if one.node in seen:
            continue
        seen.add(one.node)
        if not is_same([*one.args, *one.named.values()]):
            return f"an argument of `{one.file.brief(one.node)}`"
        for node in ast.walk(one.node):
            why = _differs(one, node)
            if why is not None:
                return why
            waiting += _mentioned(one, node)
    return None


def _differs(code: Code, node: ast.AST) -> str | None:
    if isinstance(node, ast.Call) and code.file.called(node) in COLLECTIVES:
        return f"`{code.file.brief(node)}` at {Place(code.file, node)}"
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and code.frame is not None:
        value = code.frame.find(node.id)
        if value is not None and not isinstance(value, Code) and not is_same([value]):
            return f"`{node.id}` at {Place(code.file, node)}"
    return None


def _mentioned(code: Code, node: ast.AST) -> list[Code]:
    """The functions of the program that an expression names: they may be called."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return []
    local = code.frame.find(node.id) if isinstance(node, ast.Name) and code.frame else None
    if isinstance(local, Code):
        return [local]
    values = code.file.values(node) if local is None else ()
    found = [value for value in values if isinstance(value, Known)]
    return [Code(one.node, one.file) for one in found if isinstance(one.node, FUNCTIONS)]


def is_opaque(value: Value) -> bool:
    """Whether a value may be given to code that is not followed."""
    if isinstance(value, Code):
        return what_differs(value) is None
    return not isinstance(value, Native) and is_same([value])
