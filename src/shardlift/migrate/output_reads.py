"""Reading the first row of what a pmapped function returned, without gathering the others.

`x[0]`, and a tree map of it, gather all rows. Where the value goes to the host, `unreplicate`
reads it on the first device instead; on anything but rows on devices it is `x[0]`. Any other
`x[0]` works as it did, on all devices, and is left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlift.migrate.goal import Goal
from shardlift.migrate.names import is_free
from shardlift.migrate.placement import UNREPLICATE
from shardlift.source.file import File
from shardlift.source.flax_helpers import Fitness, fitness
from shardlift.source.idioms import is_zero, takes_first
from shardlift.source.libraries import REPLICATE, TO_HOST, TREE_MAPS
from shardlift.source.model import Edit, HelperRequest, Kind, Match
from shardlift.source.outputs import device_index, fetched_argument, may_be_output
from shardlift.source.scopes import end, position
from shardlift.source.values import Result

FIRST_OF_TREE = re.compile(rb"lambda (\w+):\s*\1\[0\]")  # in a file that is worth parsing
_NUMBERS = frozenset({"builtins.float", "builtins.int", "builtins.print", *TO_HOST})


def rewrite(file: File, goal: Goal) -> Iterator[Match]:
    """`x[0]`, alone or in a tree map, where it reads what a mapped function returned."""
    if goal is Goal.SHIM:
        return  # they work, if slowly
    for call in file.index.nodes(ast.Call):
        if _is_first_of_tree(file, call) and _is_fetched(file, call) and _reads_rows(file, call):
            yield from _around(file, call, call.args[1])
    for node in file.index.nodes(ast.Subscript):
        if is_zero(node.slice) and _is_fetched(file, node) and device_index(file, node) is not None:
            yield from _around(file, node, node.value)


def _is_first_of_tree(file: File, call: ast.Call) -> bool:
    if file.called(call) not in TREE_MAPS or len(call.args) != 2 or call.keywords:
        return False
    return takes_first(file, call.args[0])


def _reads_rows(file: File, call: ast.Call) -> bool:
    """Whether the tree came from pmap, and was not fetched from the devices before."""
    tree = call.args[1]
    if fetched_argument(file, tree) is not None:
        return False
    value = file.only(tree)
    stacked = isinstance(value, Result) and value.path in REPLICATE
    return stacked or may_be_output(file, tree)


def _around(file: File, node: ast.expr, inner: ast.expr) -> Iterator[Match]:
    """Put a helper's call in the place of a node, and leave what it is given as it is written."""
    # Flax's own function of that name stays in the file if it works.
    stays = fitness(UNREPLICATE, file.project.settings) is Fitness.WORKS
    if not is_free(file, node, "unreplicate", "" if stays else UNREPLICATE):
        return
    opening = Edit(file.stretch(*position(node), *position(inner)), "unreplicate(")
    closing = Edit(file.stretch(*end(inner), *end(node)), ")")
    helpers = frozenset({HelperRequest("unreplicate")})
    yield Match(node, "", (opening, closing), helpers=helpers, kind=Kind.READ)


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
