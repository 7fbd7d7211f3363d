"""Outputs that the source alone proves to be the same on all devices: reductions over the axis.

`return lax.pmean(metrics, "batch")` over the axis of the pmap itself: as the output, as an element
of it, as the values of a dict, or in a function that is called. Everything else needs a recorded
run.
"""

from __future__ import annotations

import ast

from shardlift.migrate.device_axis.cells import Key
from shardlift.migrate.device_axis.sites import Site
from shardlift.source.file import File
from shardlift.source.idioms import axis_of
from shardlift.source.libraries import REDUCTIONS
from shardlift.source.outputs import returned_at
from shardlift.source.scopes import FUNCTIONS, LOOPS
from shardlift.source.values import Known

_DEEPEST = 4
_BRANCHES = (*LOOPS, ast.Try, ast.Match, ast.With, ast.NamedExpr, ast.Delete)


def is_reduced(site: Site, path: tuple[Key, ...]) -> bool:
    """Whether every return of the function has a reduction over its axis at a path."""
    function, axis = site.function, site.axis_name
    if site.mapped is None or function is None or axis is None or not _is_straight(function):
        return False
    outputs = list(returned_at(site.mapped, path))
    return len(outputs) == len(function.returns()) > 0 and all(
        _reduced(file, expression, axis, _DEEPEST) for file, expression in outputs
    )


def _is_straight(function: Known) -> bool:
    """Whether the statements run in the order of the text, and no value is changed in place."""
    for node in ast.walk(function.node):
        if isinstance(node, _BRANCHES):
            return False
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            return False
    return not isinstance(function.node, ast.AsyncFunctionDef)


def _reduced(file: File, node: ast.expr, axis: str, depth: int) -> bool:
    node = file.definition(node)
    if isinstance(node, ast.Dict):
        return None not in node.keys and all(_reduced(file, v, axis, depth) for v in node.values)
    if isinstance(node, ast.Tuple):
        return all(_reduced(file, element, axis, depth) for element in node.elts)
    if not isinstance(node, ast.Call):
        return False
    if file.called(node) in REDUCTIONS:
        names = {keyword.arg for keyword in node.keywords}
        return axis_of(file, node) == axis and names <= {"axis_name"} and len(node.args) <= 2
    value = file.only(node.func)
    if not depth or not isinstance(value, Known) or not isinstance(value.node, FUNCTIONS):
        return False
    if getattr(value.node, "decorator_list", []) or not _is_straight(value):
        return False
    bodies = value.returns()
    return bool(bodies) and all(_reduced(value.file, body, axis, depth - 1) for body in bodies)
