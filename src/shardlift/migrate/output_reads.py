"""Reading the first row of what a pmapped function returned, without gathering the others.

`x[0]`, and a tree map of it, gather all rows. `first_replica` gives the same value on all devices,
where `x[0]` has it, so that it goes together with other arrays as it did; where the value goes
to the host anyway, `unreplicate` reads it on the first device. On anything but rows on devices
both are `x[0]`: a function that takes the first of all that it is given can be rewritten too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlift.migrate.names import is_free
from shardlift.migrate.placement import UNREPLICATE
from shardlift.migrate.rewrite import Goal
from shardlift.source.file import File
from shardlift.source.idioms import is_zero, takes_first
from shardlift.source.libraries import REPLICATE, TO_HOST, TREE_MAPS
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.outputs import device_index, fetched_argument, may_be_output
from shardlift.source.scopes import end, position
from shardlift.source.values import Argument, Result

FIRST_OF_TREE = re.compile(rb"lambda (\w+):\s*\1\[0\]")  # in a file that is worth parsing
_NUMBERS = frozenset({"builtins.float", "builtins.int", "builtins.print", *TO_HOST})
# What people call a function that takes the first replica of a tree, and what its file says.
_TELLING = re.compile(r"un_?rep|un_?pmap|replica|^_*(get_)?first$|(first|one|single)_device", re.I)
_OF_DEVICES = re.compile(r"pmap|device|replica", re.I)


def rewrite(file: File, goal: Goal) -> Iterator[Match]:
    """`x[0]`, alone or in a tree map, where it reads what a mapped function returned."""
    if goal is Goal.SHIM:
        return  # they work, if slowly
    for call in file.index.nodes(ast.Call):
        if _is_first_of_tree(file, call) and _reads_rows(file, call):
            tree = call.args[1]
            yield from _around(file, call, tree, _is_fetched(file, call))
    for node in file.index.nodes(ast.Subscript):
        if is_zero(node.slice) and device_index(file, node) is not None:
            yield from _around(file, node, node.value, _is_fetched(file, node))


def _is_first_of_tree(file: File, call: ast.Call) -> bool:
    if file.called(call) not in TREE_MAPS or len(call.args) != 2 or call.keywords:
        return False
    return takes_first(file, call.args[0])


def _reads_rows(file: File, call: ast.Call) -> bool:
    """Whether the tree came from pmap, or is given to a function that is made for such trees."""
    tree = call.args[1]
    if fetched_argument(file, tree) is not None:
        return False
    value = file.only(tree)
    if isinstance(value, Argument):
        telling = _TELLING.search(_name_of(file, value.function))
        return bool(telling and _OF_DEVICES.search(file.source.text))
    stacked = isinstance(value, Result) and value.path in REPLICATE
    return stacked or may_be_output(file, tree)


def _name_of(file: File, function: ast.AST) -> str:
    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return function.name
    parent = file.index.parents.get(function)
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    return getattr(target, "id", "")


def _around(file: File, node: ast.expr, inner: ast.expr, to_host: bool) -> Iterator[Match]:
    """Put a helper's call in the place of a node, and leave what it is given as it is written."""
    name = "unreplicate" if to_host else "first_replica"
    if not is_free(file, node, name, UNREPLICATE if to_host else ""):
        name = "first_replica"
        if not is_free(file, node, name):
            return
    opening = Edit(file.stretch(*position(node), *position(inner)), f"{name}(")
    closing = Edit(file.stretch(*end(inner), *end(node)), ")")
    yield Match(node, "", (opening, closing), helpers=frozenset({name}), kind=Kind.READ)


def _is_fetched(file: File, node: ast.expr) -> bool:
    """Whether a value goes to the host and nowhere else, so that its device does not matter."""
    parent = file.index.parents.get(node)
    if isinstance(parent, ast.Call) and node in parent.args:
        return file.called(parent) in _NUMBERS or _is_logging(parent)
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("item", "tolist")
    return isinstance(parent, ast.FormattedValue)


def _is_logging(call: ast.Call) -> bool:
    """`logging.info("…", value)` and its like."""
    function = call.func
    names = ("debug", "info", "warning", "error")
    return isinstance(function, ast.Attribute) and function.attr in names
