"""Outputs that the text alone proves to be the same on all devices: they are returned reduced.

`return lax.pmean(metrics, "batch")` over the axis of the pmap itself, as an element of the output,
as the values of a dict, or by a function that is called for it. Nothing else is proven without a
recorded run.
"""

from __future__ import annotations

import ast

from shardlift.migrate.device_axis.sites import Key, Site
from shardlift.source.file import File
from shardlift.source.idioms import axis_of
from shardlift.source.libraries import REDUCTIONS
from shardlift.source.outputs import returned
from shardlift.source.scopes import FUNCTIONS, LOOPS
from shardlift.source.sites import mapped_function
from shardlift.source.values import Constant, Known

_DEEPEST = 4
_BRANCHES = (*LOOPS, ast.Try, ast.Match, ast.With, ast.NamedExpr, ast.Delete)


def is_reduced(site: Site, path: tuple[Key, ...]) -> bool:
    """Whether every way through the function returns a collective over its axis at a path."""
    function = mapped_function(site.mapped) if site.mapped is not None else None
    node = site.options.keywords.get("axis_name")
    axis = site.file.only(node) if node is not None else None
    if site.mapped is None or function is None or not isinstance(axis, Constant):
        return False
    if not isinstance(axis.value, str) or not _is_straight(function):
        return False
    found = list(returned(site.mapped, path))
    return len(found) == len(function.returns()) > 0 and all(
        _reduced(file, expression, axis.value, _DEEPEST) for file, expression in found
    )


def _is_straight(function: Known) -> bool:
    """Whether the order of the text is the order in which it runs, and nothing is changed later."""
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
