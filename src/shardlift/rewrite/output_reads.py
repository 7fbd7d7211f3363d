"""Reading the first row of what a pmapped function returned, without gathering the others.

`x[0]`, alone or in a tree map, gathers all rows. Where the value goes to the host, `first_row`
reads it on the first device instead. It decides when it runs: for a tuple, and for anything else
but rows on devices, it is `x[0]`. Any other `x[0]` is left alone: its value may be needed on all
devices.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from shardlift.rewrite.goal import Goal
from shardlift.rewrite.names import is_free
from shardlift.source.file import File
from shardlift.source.idioms import is_zero, takes_first
from shardlift.source.libraries import REPLICATE, TO_HOST, TREE_MAPS
from shardlift.source.model import Edit, HelperRequest, Kind, Match
from shardlift.source.outputs import may_be_output, may_have_rows
from shardlift.source.scopes import end, position
from shardlift.source.values import Result

FIRST_OF_TREE = re.compile(rb"lambda (\w+):\s*\1\[0\]")  # in a file that is worth parsing
_HELPER = "first_row"
_ON_HOST = frozenset({"builtins.float", "builtins.int", "builtins.print", *TO_HOST})
_LOGGING = ("debug", "info", "warning", "error")


def rewrite(file: File, goal: Goal) -> Iterator[Match]:
    """`x[0]`, alone or in a tree map, where it reads what a mapped function returned."""
    if goal is Goal.SHIM:
        return  # they work, if slowly
    for call in file.index.nodes(ast.Call):
        if _is_first_of_tree(file, call) and _goes_to_host(file, call):
            yield _replace(file, call, file.replace(call.args[0], _HELPER))
    for node in file.index.nodes(ast.Subscript):
        if is_zero(node.slice) and _goes_to_host(file, node) and may_have_rows(file, node.value):
            opening = Edit(file.stretch(*position(node), *position(node.value)), f"{_HELPER}(")
            closing = Edit(file.stretch(*end(node.value), *end(node)), ")")
            yield _replace(file, node, opening, closing)


def _is_first_of_tree(file: File, call: ast.Call) -> bool:
    """`jax.tree.map(lambda x: x[0], tree)` of a tree with rows on devices."""
    if file.called(call) not in TREE_MAPS or len(call.args) != 2 or call.keywords:
        return False
    return takes_first(file, call.args[0]) and _is_on_devices(file, call.args[1])


def _is_on_devices(file: File, tree: ast.expr) -> bool:
    """Whether a tree may have come from pmap, or was placed for it."""
    value = file.only(tree)
    stacked = isinstance(value, Result) and value.path in REPLICATE
    return stacked or may_be_output(file, tree)


def _replace(file: File, node: ast.expr, *edits: Edit) -> Match:
    if not is_free(file, node, _HELPER):
        return Match(node, f"the file has a `{_HELPER}` of its own", kind=Kind.READ)
    if _prints_itself(file, node):
        text = "the f-string prints this text, as `=` in it asks: the read stays as it is written"
        return Match(node, text, kind=Kind.READ)
    return Match(node, "", edits, helpers=frozenset({HelperRequest(_HELPER)}), kind=Kind.READ)


def _prints_itself(file: File, node: ast.expr) -> bool:
    """Whether an expression is in braces that print their own text: `f"{float(x[0])=}"`."""
    ancestors = list(file.index.ancestors(node))
    for field, whole in pairwise(ancestors):
        if isinstance(field, ast.FormattedValue):
            text = re.escape(file.text(field.value))
            if re.search(rf"{{[\s(]*{text}[\s)]*=\s*[!:}}]", file.text(whole)):
                return True
    return False


def _goes_to_host(file: File, node: ast.expr) -> bool:
    """Whether a value goes to the host and nowhere else, so that its device does not matter."""
    parent = file.index.parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("item", "tolist")
    if isinstance(parent, ast.Call) and node in parent.args:
        logs = isinstance(parent.func, ast.Attribute) and parent.func.attr in _LOGGING
        return logs or file.called(parent) in _ON_HOST
    return isinstance(parent, ast.FormattedValue)
