"""Idioms of pmap code: placing a value on every device, reading one replica back."""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.libraries import (
    COLLECTIVES,
    REDUCTIONS,
    REPLICATE,
    ROWS,
    SHARD,
    TO_HOST,
    TREE_MAPS,
    UNREPLICATE,
)
from shardlift.source.scopes import FUNCTIONS, argument_at, positional
from shardlift.source.values import Argument, Constant, Known, Located, Mapped, Output, Result
from shardlift.source.wrappers import argument_for, is_plain

_LOCAL = frozenset({"jax.local_device_count", "jax.local_devices"})
_GLOBAL = frozenset({"jax.device_count", "jax.devices"})
# Functions whose second argument is the shape, or the number of rows, of the result.
_SHAPED = {"jax.random.split"} | {
    f"{module}.{name}" for module in ("jax.numpy", "numpy") for name in ("reshape", "broadcast_to")
}
_STACKS = frozenset({"jax.numpy.stack", "jax.numpy.array", "numpy.stack"})


def takes_first(file: File, node: ast.expr) -> bool:
    """Whether a function is `lambda x: x[0]`, or a def that does the same and nothing else."""
    return first_row_in(file, node) is not None and fetched_row(file, node) is None


def fetched_row(file: File, node: ast.expr) -> ast.Subscript | None:
    """The `x[0]` in `lambda x: jax.device_get(x[0])`."""
    is_call = isinstance(node, ast.Lambda) and isinstance(node.body, ast.Call)
    return first_row_in(file, node) if is_call else None


def first_row_in(file: File, node: ast.expr) -> ast.Subscript | None:
    """The `x[0]` that is all that a function returns, or that a lambda takes to the host."""
    function = file.only(node)
    if not isinstance(function, Known) or not is_plain(function):
        return None
    if isinstance(function.node, ast.FunctionDef):
        docstring = ast.get_docstring(function.node)
        if len(function.node.body) != 1 + (docstring is not None):
            return None
    body = next(iter(function.returns()), None)
    if function.node is node and isinstance(body, ast.Call) and file.called(body) in TO_HOST:
        body = body.args[0] if len(body.args) == 1 and not body.keywords else None
    if not isinstance(body, ast.Subscript) or not is_zero(body.slice):
        return None
    taken = function.file.only(body.value)
    if not isinstance(taken, Argument) or taken.function is not function.node:
        return None
    return body if [taken.node.arg] == positional(taken.function)[:1] else None


def is_zero(node: ast.expr) -> bool:
    """Whether an expression is the literal 0, not `False`."""
    return isinstance(node, ast.Constant) and node.value == 0 and node.value is not False


def unreplicated_tree(file: File, call: ast.Call) -> ast.expr | None:
    """The tree whose first replica a call reads, by a library or by the project itself."""
    name = file.called(call)
    if name in UNREPLICATE and call.args:
        return call.args[0]
    if name in TREE_MAPS:
        return _first_of_tree(file, call)
    function, inner = file.only(call.func), first_of_tree_in(file, call)
    if isinstance(function, Known) and inner is not None:
        tree = inner.file.only(inner.node.args[1])  # type: ignore[attr-defined]
        if isinstance(tree, Argument) and tree.function is function.node:
            return argument_for(function, tree.node.arg, call)
    return None


def first_of_tree_in(file: File, call: ast.Call) -> Located | None:
    """The tree map in a function of the project that reads the first replica, if one is called."""
    function = file.only(call.func)
    returned = function.returns() if isinstance(function, Known) else []
    if not isinstance(function, Known) or len(returned) != 1:
        return None
    tree = _first_of_tree(function.file, returned[0])
    return Located(returned[0], function.file) if tree is not None else None


def _first_of_tree(file: File, node: ast.expr) -> ast.expr | None:
    """The tree in `jax.tree.map(lambda x: x[0], tree)`."""
    if not isinstance(node, ast.Call) or file.called(node) not in TREE_MAPS or len(node.args) != 2:
        return None
    return node.args[1] if first_row_in(file, node.args[0]) is not None else None


def device_count(file: File, node: ast.expr) -> str | None:
    """`local` or `global` if an expression counts, or lists, devices."""
    value = file.only(node)
    if not isinstance(value, Result):
        return None
    if value.path == "builtins.len" and len(value.call.args) == 1:
        return device_count(value.file, value.call.args[0])
    if value.path in _LOCAL:
        return "local"
    return "global" if value.path in _GLOBAL and not value.call.args else None


def stacking_count(file: File, node: ast.expr) -> ast.expr | None:
    """The device count that is the size of a value's leading axis, where the value is made.

    This is pmap's layout: `x.reshape((n, -1))`, `random.split(key, n)`, `jnp.stack([x] * n)`,
    `jnp.broadcast_to(x, (n, …))`, or one of these inside a tree map.
    """
    node = file.definition(node)
    if not isinstance(node, ast.Call):
        return None
    name = file.called(node)
    if name in TREE_MAPS and node.args and isinstance(node.args[0], ast.Lambda):
        return stacking_count(file, node.args[0].body)
    if name in _SHAPED and len(node.args) > 1:
        return leading_count(file, node.args[1])
    if name in _STACKS and node.args:
        repeated = repeated_by(file, node.args[0])
        return repeated[1] if repeated is not None else None
    is_reshape = isinstance(node.func, ast.Attribute) and node.func.attr == "reshape"
    is_stacked = name is None and is_reshape and node.args
    return leading_count(file, node.args[0]) if is_stacked else None


def mapped_inputs(file: File) -> Iterator[ast.expr]:
    """What is passed to pmapped functions, where it is made; each once."""
    arguments = (argument for call, _ in file.mapped_calls for argument in call.args)
    yield from dict.fromkeys(map(file.definition, arguments))


def innermost_expression(file: File, node: ast.expr) -> tuple[File, ast.expr]:
    """The expression that makes a value, inside tree maps and functions of the project.

    For `jax.tree.map(shard, batch)` with `def shard(x): return x.reshape(…)`, that is the
    `reshape`, together with its file.
    """
    for _ in range(4):
        node = file.definition(node)
        if not isinstance(node, ast.Call):
            break
        mapped = file.called(node) in TREE_MAPS and node.args
        value = file.only(node.args[0] if mapped else node.func)
        if not isinstance(value, Known) or not isinstance(value.node, FUNCTIONS):
            break
        returned = value.returns()
        if len(returned) != 1:
            break
        file, node = value.file, returned[0]
    return file, node


def leading_count(file: File, shape: ast.expr) -> ast.expr | None:
    """The first entry of a shape, if it counts devices."""
    shape = file.definition(shape)
    while isinstance(shape, ast.BinOp) and isinstance(shape.op, ast.Add):
        shape = shape.left
    if isinstance(shape, (ast.Tuple, ast.List)):
        shape = shape.elts[0] if shape.elts else shape
    return shape if device_count(file, shape) else None


def repeated_by(file: File, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The `x` and the `n` of `[x] * n`, where `n` counts devices."""
    repeated = repeated_list(node)
    return repeated if repeated is not None and device_count(file, repeated[1]) else None


def repeated_list(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The `x` and the `n` of `[x] * n`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(side, ast.List) and len(side.elts) == 1:
                return side.elts[0], other
    return None


def has_device_axis(file: File, node: ast.expr) -> bool:
    """Whether a value is known to have the leading axis that pmap maps over."""
    value = file.only(node)
    is_placed = isinstance(value, Result) and value.path in REPLICATE | SHARD | ROWS
    return isinstance(value, Output) or is_placed or stacking_count(file, node) is not None


def collectives(file: File, node: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Every collective inside a function, with its library name."""
    for call in file.index.calls_in[node]:
        if (name := file.called(call)) in COLLECTIVES:
            yield call, name or ""


def literals(file: File, node: ast.expr) -> list[object]:
    """The values in a tuple or list, or of one expression; None for what is not a literal."""
    node = file.definition(node)
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    values = map(file.only, parts)
    return [value.value if isinstance(value, Constant) else None for value in values]


def axis_of(file: File, call: ast.Call) -> object:
    """The axis name of a collective, if it is a literal or a constant."""
    node = argument_at(call, 1, "axis_name")
    if isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) == 1:
        node = node.elts[0]
    value = file.only(node) if node is not None else None
    return value.value if isinstance(value, Constant) else None


def reduced_axis(file: File, call: ast.Call) -> object:
    """The axis that a call reduces over; None if it reduces over groups, which still differ."""
    grouped = any(keyword.arg == "axis_index_groups" for keyword in call.keywords)
    return axis_of(file, call) if file.called(call) in REDUCTIONS and not grouped else None


def axis_name(mapped: Mapped) -> object:
    """The axis name of a pmapped function, if it is a literal or a constant."""
    located = mapped.keywords.get("axis_name")
    value = located.file.only(located.node) if located else None
    return value.value if isinstance(value, Constant) else None
