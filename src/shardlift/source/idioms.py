"""The idioms of pmap code: placing a value on every device, taking one replica back."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.resolve import returns
from shardlift.source.scopes import FUNCTIONS, positional
from shardlift.source.values import Argument, Constant, Known, Mapped, Output, Result
from shardlift.source.wrappers import given, is_plain

TREE_MAPS = frozenset(
    {"jax.tree.map", "jax.tree_util.tree_map", "jax.tree_map", "jax.tree_multimap"}
)
UNREPLICATE = frozenset({"flax.jax_utils.unreplicate", "flax.training.common_utils.unreplicate"})
REPLICATE = frozenset({"flax.jax_utils.replicate", "jax.device_put_replicated"})
SHARD = frozenset({"flax.training.common_utils.shard", "jax.device_put_sharded"})
COLLECTIVES = frozenset(
    f"jax.lax.{name}" for name in ("psum", "pmean", "pmax", "pmin", "all_gather", "psum_scatter")
)
REDUCTIONS = frozenset(f"jax.lax.{name}" for name in ("psum", "pmean", "pmax", "pmin"))
GRADS = frozenset({"jax.grad", "jax.value_and_grad"})
_LOCAL = frozenset({"jax.local_device_count", "jax.local_devices"})
_GLOBAL = frozenset({"jax.device_count", "jax.devices"})


def takes_first(file: File, node: ast.expr) -> bool:
    """`lambda x: x[0]`, or a def that says the same and nothing else."""
    value = file.only(node)
    body = _only_expression(value) if isinstance(value, Known) else None
    if not isinstance(value, Known) or not isinstance(body, ast.Subscript):
        return False
    taken = value.file.only(body.value) if is_zero(body.slice) else None
    if not isinstance(taken, Argument) or taken.function is not value.node:
        return False
    return [taken.node.arg] == positional(taken.function)[:1]


def _only_expression(function: Known) -> ast.expr | None:
    """What a function returns, if it does nothing else; its docstring does not count."""
    node = function.node
    if isinstance(node, ast.Lambda):
        return node.body
    if not isinstance(node, ast.FunctionDef) or not is_plain(function):
        return None
    statements = [one for one in node.body if not _is_text(one)]
    only = statements[0] if len(statements) == 1 else None
    return only.value if isinstance(only, ast.Return) else None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def is_zero(node: ast.expr) -> bool:
    """The literal 0, and not False."""
    return isinstance(node, ast.Constant) and node.value == 0 and node.value is not False


def unreplicated(file: File, call: ast.Call) -> ast.expr | None:
    """The tree of which a call takes the first replica: a library's helper, or a home-made one."""
    name = file.called(call)
    if name in UNREPLICATE and call.args:
        return call.args[0]
    if name in TREE_MAPS and len(call.args) == 2 and takes_first(file, call.args[0]):
        return call.args[1]
    value = file.only(call.func)
    if isinstance(value, Known) and isinstance(value.node, FUNCTIONS):
        bodies = list(returns(value))
        if len(bodies) == 1 and isinstance(bodies[0], ast.Call):
            inner = bodies[0]
            is_map = value.file.called(inner) in TREE_MAPS and len(inner.args) == 2
            if is_map and takes_first(value.file, inner.args[0]):
                tree = value.file.only(inner.args[1])
                if isinstance(tree, Argument) and tree.function is value.node:
                    return given(value, tree.node.arg, call)
    return None


def device_count(file: File, node: ast.expr) -> str | None:
    """`local` or `global` for an expression that counts devices."""
    value = file.only(node)
    if not isinstance(value, Result):
        return None
    if value.path == "builtins.len" and len(value.call.args) == 1:
        return device_count(value.file, value.call.args[0])
    if value.path in _LOCAL:
        return "local"
    return "global" if value.path in _GLOBAL and not value.call.args else None


def stacked_by(file: File, node: ast.expr) -> ast.expr | None:
    """The device count by which a value was given a leading axis, pmap's layout.

    `x.reshape((n, -1))`, `random.split(key, n)`, `jnp.stack([x] * n)`,
    `jnp.broadcast_to(x, (n, …))`, and those inside a tree map.
    """
    node = file.definition(node)
    if not isinstance(node, ast.Call):
        return None
    name = file.called(node)
    if name in TREE_MAPS and node.args and isinstance(node.args[0], ast.Lambda):
        return stacked_by(file, node.args[0].body)
    if name == "jax.random.split" and len(node.args) > 1:
        return _counted(file, node.args[1])
    if name in ("jax.numpy.reshape", "numpy.reshape") and len(node.args) > 1:
        return _counted(file, node.args[1])
    if name in ("jax.numpy.broadcast_to", "numpy.broadcast_to") and len(node.args) > 1:
        return _counted(file, node.args[1])
    if name in ("jax.numpy.stack", "jax.numpy.array", "numpy.stack") and node.args:
        return _repeated(file, node.args[0])
    if name is None and isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
        return _counted(file, node.args[0]) if node.args else None
    return None


def behind(file: File, node: ast.expr) -> tuple[File, ast.expr]:
    """The expression that makes a value, behind tree maps and helpers of the program's own.

    Of `jax.tree.map(shard, batch)` with `def shard(x): return x.reshape(…)` it is the reshape,
    in the file in which it stands.
    """
    for _ in range(4):
        node = file.definition(node)
        if not isinstance(node, ast.Call):
            break
        mapped = file.called(node) in TREE_MAPS and node.args
        value = file.only(node.args[0] if mapped else node.func)
        if not isinstance(value, Known) or not isinstance(value.node, FUNCTIONS):
            break
        bodies = list(returns(value))
        if len(bodies) != 1:
            break
        file, node = value.file, bodies[0]
    return file, node


def _counted(file: File, shape: ast.expr) -> ast.expr | None:
    shape = file.definition(shape)
    while isinstance(shape, ast.BinOp) and isinstance(shape.op, ast.Add):
        shape = shape.left
    if isinstance(shape, (ast.Tuple, ast.List)):
        shape = shape.elts[0] if shape.elts else shape
    return shape if device_count(file, shape) else None


def _repeated(file: File, node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(side, ast.List) and device_count(file, other):
                return other
    return None


def has_device_axis(file: File, node: ast.expr) -> bool:
    """Whether a value is known to carry the leading axis that pmap maps over."""
    value = file.only(node)
    if isinstance(value, Output):
        return True
    if isinstance(value, Result) and value.path in REPLICATE | SHARD:
        return True
    return stacked_by(file, node) is not None


def collectives(file: File, node: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Every collective inside a node, with its library name."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            name = file.called(call)
            if name in COLLECTIVES:
                yield call, name or ""


def axis_of(file: File, call: ast.Call) -> object:
    """The axis name that a collective is over, if it is written out."""
    node = call.args[1] if len(call.args) > 1 else None
    for keyword in call.keywords:
        node = keyword.value if keyword.arg == "axis_name" else node
    if isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) == 1:
        node = node.elts[0]
    value = file.only(node) if node is not None else None
    return value.value if isinstance(value, Constant) else None


def axis_name(mapped: Mapped) -> object:
    """The axis name of a pmapped function, if it is written out."""
    located = mapped.keywords.get("axis_name")
    value = located.file.only(located.node) if located else None
    return value.value if isinstance(value, Constant) else None
