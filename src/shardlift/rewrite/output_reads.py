"""Reading the first row of what a pmapped function returned, without gathering the others.

`x[0]` gathers all rows. Where it reads one number or prints, as in `float(x[0])`,
`jax.device_get(x)[0]` does without: it copies the rows of all devices to the host, whatever `x` is.
Elsewhere the first row is read on its own device: in a tree map over nothing but outputs of pmap,
from its shard; else by `first_row`, which decides when it runs: for a tuple, and for anything else
but rows on devices, it is `x[0]`. These are written where the value goes to the host, and into a
project's own `unreplicate`: its tree lies on the first device then, as before JAX 0.8, and as with
flax's, which a file that imports it has for all its trees. Any other `x[0]` is left alone: its
value may be needed on all devices, and nothing shows that what may be a tuple is slow to read.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from shardlift.check.rules import all_rules
from shardlift.rewrite import placement
from shardlift.rewrite.call_format import CallText, Style, TextBlock, render
from shardlift.rewrite.forms import around
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.names import flax_utils, is_free, is_shadowed, jax_name
from shardlift.rewrite.placement import UNREPLICATE
from shardlift.source.file import File, remembered
from shardlift.source.flax_helpers import Fitness, fitness
from shardlift.source.idioms import fetched_row, first_row_in, is_zero
from shardlift.source.libraries import TO_HOST, TREE_MAPS
from shardlift.source.model import Edit, HelperRequest, Kind, Match
from shardlift.source.outputs import (
    device_index,
    has_rows,
    is_logged,
    is_quick_test,
    is_small,
    may_have_rows,
)
from shardlift.source.scopes import end, last_name, position
from shardlift.source.sites import scope_name
from shardlift.source.text import has_comment

FIRST_OF_TREE = re.compile(
    rb"lambda (\w+):\s*(?:[\w.]+\()?\1\[0\]"
)  # in a file that is worth parsing
_HELPER = "first_row"
_FIRST_SHARD = ".addressable_shards[0].data.squeeze(0)"
_ON_HOST = frozenset({"builtins.print", "builtins.float", "builtins.int", *TO_HOST})
_SL402 = all_rules()["SL402"]


def rewrite(file: File, goal: Goal) -> Iterator[Match]:
    """`x[0]`, alone or in a tree map, where it reads what a mapped function returned."""
    if goal is Goal.SHIM or is_quick_test(file):
        return  # they work, if slowly
    reads: list[Match] = []
    for call in (node for node in file.index.nodes(ast.Call) if _maps_tree(file, node)):
        whole = _goes_to_host(file, call) or _replaces_rows(file, call)
        whole = whole or fetched_row(file, call.args[0]) is not None
        utils = _fast_utils(file, call) if goal in (Goal.FIX, Goal.SHARD_MAP) else None
        is_there = utils is not None and utils[1] <= _imported(file)
        if ((whole or is_there) and call in _slow_maps(file)) or _is_own_helper(file, call):
            reads.append(_read_tree(file, call, utils, is_there))
    for node in file.index.nodes(ast.Subscript):
        if is_zero(node.slice) and _goes_to_host(file, node) and _is_row(file, node):
            reads.append(_fetch(file, node) if is_small(file, node) else _read_row(file, node))
    shares = any(match.helpers for match in reads)
    for match in reads:  # all reads of a file in one way
        read = match.node
        by_shard = shares and any(edit.replacement == _FIRST_SHARD for edit in match.edits)
        function = read.args[0] if by_shard and isinstance(read, ast.Call) else None
        if isinstance(function, ast.Lambda) and isinstance(function.body, ast.Subscript):
            edit = file.replace(function, _HELPER)
            yield replace(match, edits=(edit,), helpers=frozenset({HelperRequest(_HELPER)}))
        else:
            yield match


def _is_row(file: File, node: ast.Subscript) -> bool:
    """Whether `x[0]` is a row: `x` is no tuple, or one number is read, which is right for both."""
    is_number = getattr(file.index.parents.get(node), "attr", "") == "item"
    return device_index(file, node) is not None or (is_number and may_have_rows(file, node.value))


def _fast_utils(file: File, call: ast.Call) -> tuple[str, frozenset[str]] | None:
    """What `flax.jax_utils` is called, and its import, if its `unreplicate` does not gather."""
    is_fast = fitness(UNREPLICATE, file.project.settings) is Fitness.WORKS
    return flax_utils(file, call) if is_fast else None


@remembered
def _imported(file: File) -> frozenset[str]:
    """What a file will import for the values that it places: it has flax's helpers then."""
    return frozenset().union(*(match.imports for match in placement.rewrite(file, Goal.FIX)))


def _read_tree(
    file: File, call: ast.Call, flax: tuple[str, frozenset[str]] | None, is_there: bool
) -> Match:
    """`jax_utils.unreplicate(tree)` where a file has flax's helpers, else a tree map.

    It takes the first shard of leaves that can be nothing but rows on devices, as JAX's guide does.
    """
    function, tree = call.args[:2]
    fetched = fetched_row(file, function)
    row = fetched or (function.body if isinstance(function, ast.Lambda) else None)
    if not is_there and isinstance(row, ast.Subscript) and has_rows(file, tree):
        edit = Edit(file.stretch(*end(row.value), *end(row)), _FIRST_SHARD)
        return Match(call, "", (edit,), kind=Kind.READ)
    if flax is not None:
        utils, imports = flax
        edits = _by_unreplicate(file, call, f"{utils}.unreplicate")
        return Match(call, "", edits, imports, kind=Kind.READ)
    if fetched is not None:
        return _read_row(file, fetched)
    return _use_helper(file, call, file.replace(function, _HELPER))


def _by_unreplicate(file: File, call: ast.Call, unreplicate: str) -> tuple[Edit, ...]:
    """`unreplicate(tree)`, or `jax.tree.map(np.asarray, unreplicate(tree))`."""
    function, tree = call.args[:2]
    if not isinstance(function, ast.Lambda) or not isinstance(function.body, ast.Call):
        if end(tree)[0] < end(call)[0] and not has_comment(file.text(call)):
            span, style = file.span(call), Style.of(file.source.text)
            text = TextBlock(file.text(tree), file.margin(tree.lineno))
            read = CallText(unreplicate, (text if "\n" in text.text else text.text,))
            after = len(file.lines[end(call)[0] - 1]) - span.end_column
            laid_out = render(read, style, file.margin(call.lineno), span.column, after)
            return (Edit(span, laid_out),)
        return (Edit(file.stretch(*position(call), *position(tree)), f"{unreplicate}("),)
    fetch = f"{file.text(function.body.func)}, {unreplicate}("
    head = Edit(file.stretch(*position(function), *position(tree)), fetch)
    return head, Edit(file.stretch(*end(tree), *end(tree)), ")")


def _fetch(file: File, node: ast.Subscript) -> Match:
    """`jax.device_get(x)[0]`."""
    jax, imports = jax_name(file)
    if is_shadowed(file, node, jax):
        return _read_row(file, node)
    edits = around(file, node, node.value, f"{jax}.device_get(", ")[0]")
    return Match(node, "", edits, imports, kind=Kind.READ)


def _read_row(file: File, node: ast.Subscript) -> Match:
    return _use_helper(file, node, *around(file, node, node.value, f"{_HELPER}(", ")"))


@remembered
def _slow_maps(file: File) -> set[ast.AST]:
    """The calls `jax.tree.map(lambda x: x[0], tree)` of a tree with rows on devices."""
    nodes = (match.node for match in _SL402.visit(file))
    return {node for node in nodes if isinstance(node, ast.Call) and _maps_tree(file, node)}


def _maps_tree(file: File, call: ast.Call) -> bool:
    return len(call.args) == 2 and not call.keywords and file.called(call) in TREE_MAPS


def _replaces_rows(file: File, call: ast.Call) -> bool:
    """`state = jax.tree.map(…, state)`: nobody puts the first row together with the others."""
    statement = file.index.parents.get(call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    return ast.unparse(statement.targets[0]) == ast.unparse(call.args[-1])


def _is_own_helper(file: File, call: ast.Call) -> bool:
    """Whether a tree map is the project's own `unreplicate`, called with an output of pmap."""
    is_read = first_row_in(file, call.args[0]) is not None
    return is_read and _helper_around(file, call) in _own_helpers(file)


def _helper_around(file: File, node: ast.AST) -> str:
    """The dotted name of the function around a node, or of the variable that has its lambda."""
    scope, statement = scope_name(file, node), file.index.statement(node)
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Lambda):
        return f"{scope}.{last_name(statement.targets[0])}"
    return scope


@remembered
def _own_helpers(file: File) -> set[str]:
    """The functions of a file that SL402 finds called, there or in another file."""
    returned = {f.name: file.index.returns(f) for f in file.index.nodes(ast.FunctionDef)}
    for statement in file.index.nodes(ast.Assign):
        if isinstance(statement.value, ast.Lambda):
            returned |= {last_name(target): [statement.value.body] for target in statement.targets}
    named = [n for n, nodes in returned.items() if any(file.called(x) in TREE_MAPS for x in nodes)]
    users = {user.path: user for name in named for user in file.project.files_with(name)}
    readers = (users | {file.path: file}).values() if named else ()
    return {
        _helper_around(match.file, node)
        for reader in readers
        for match in _SL402.visit(reader)
        if match.file is not None and match.file.path == file.path
        for node in match.sites
    }


def _use_helper(file: File, node: ast.expr, *edits: Edit) -> Match:
    if not is_free(file, node, _HELPER):
        return Match(node, f"the file has a `{_HELPER}` of its own", kind=Kind.READ)
    helpers = frozenset({HelperRequest(_HELPER)})
    return Match(node, "", edits, helpers=helpers, kind=Kind.READ)


def _goes_to_host(file: File, node: ast.expr) -> bool:
    """Whether a value goes to the host and nowhere else, so that its device does not matter."""
    parent = file.index.parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("item", "tolist")
    if isinstance(parent, ast.Call) and node in parent.args:
        return is_logged(parent) or file.called(parent) in _ON_HOST
    return isinstance(parent, ast.FormattedValue)
