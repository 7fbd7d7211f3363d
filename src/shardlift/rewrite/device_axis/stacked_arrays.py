"""How pmap code makes stacked arrays and reads them, as far as a rewrite can undo it.

Each idiom is a call of a library, or of a function of the program that does nothing else. The
looser readings of `source.idioms.stacked_by` are enough to warn, but not to write the array as it
was before: here every entry of a shape has to be understood.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from shardlift.rewrite.device_axis.cells import CellRole
from shardlift.source.file import File
from shardlift.source.flax_helpers import has_new_helpers
from shardlift.source.guarded import is_caught
from shardlift.source.idioms import device_count, repeated_by, takes_first
from shardlift.source.libraries import REPLICATE, ROWS, SHARD, TREE_MAPS, UNREPLICATE
from shardlift.source.scopes import argument_at
from shardlift.source.values import Argument, Constant, External, Known, Result
from shardlift.source.wrappers import argument_for

_RESHAPES = frozenset({"jax.numpy.reshape", "numpy.reshape"})


class Idiom(NamedTuple):
    """REPLICATE, SHARD, ROWS or FIRST, and the expression that it is given."""

    role: CellRole
    tree: ast.expr
    types_numbers: bool = False  # of REPLICATE: Python numbers get a type


def idiom(
    file: File, call: ast.Call, inside: Known | None = None, around: tuple[ast.AST, ...] = ()
) -> Idiom | None:
    """The idiom that a call is, if it is one.

    `inside` is a function that does nothing but this call, and is called with a tree alone.
    `around` are all such functions, each of which calls the next.
    """
    made = _idiom(file, call, inside, around)
    # Rows that do not fit are an error where they are split, and would be one of the step.
    is_moved = (
        made is not None and made.role is CellRole.SHARD and is_caught(file, call, "ValueError")
    )
    return None if is_moved else made


def _idiom(
    file: File, call: ast.Call, inside: Known | None, around: tuple[ast.AST, ...]
) -> Idiom | None:
    name = file.called(call)
    if name in TREE_MAPS:
        return _tree_map(file, call)
    if name in REPLICATE | SHARD | ROWS or name == "jax.random.split":
        return _library(file, call, name or "", inside)
    if name in UNREPLICATE and len(call.args) == 1 and not call.keywords:
        return Idiom(CellRole.FIRST, call.args[0])
    return _by_hand(file, call) or (_home_made(file, call, around) if name is None else None)


def _library(file: File, call: ast.Call, name: str, inside: Known | None) -> Idiom | None:
    if not call.args or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    if name == "jax.random.split":
        count = argument_at(call, 1, "num")
        counted = count is not None and device_count(file, count)
        return Idiom(CellRole.ROWS, call.args[0]) if counted else None
    devices = argument_at(call, 1, "devices")
    if name == "jax.device_put_sharded" and not isinstance(devices, ast.expr):
        return None
    is_on_all = devices is None or all_devices(file, devices, inside)
    if not is_on_all or any(keyword.arg != "devices" for keyword in call.keywords):
        return None
    if name in REPLICATE:
        is_typed = name == "flax.jax_utils.replicate" and has_new_helpers(file.project.settings)
        return Idiom(CellRole.REPLICATE, call.args[0], is_typed)
    return Idiom(CellRole.SHARD if name in SHARD else CellRole.ROWS, call.args[0])


def all_devices(file: File, node: ast.expr, inside: Known | None = None) -> bool:
    """`jax.devices()`, `jax.local_devices()`, or `devices or jax.local_devices()` without any."""
    node = file.definition(node)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and len(node.values) == 2:
        unset = inside is not None and _is_none(inside, node.values[0])
        return unset and all_devices(file, node.values[1], inside)
    value = file.only(node)
    return (
        isinstance(value, Result)
        and value.path in ("jax.devices", "jax.local_devices")
        and not value.call.args
        and not value.call.keywords
    )


def _is_none(function: Known, node: ast.expr) -> bool:
    """Whether an expression is a parameter of a function whose default is None."""
    value = function.file.only(node)
    if not isinstance(value, Argument) or value.function is not function.node:
        return False
    arguments = value.function.args
    names = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
    default = defaults.get(value.node)
    return isinstance(default, ast.Constant) and default.value is None


def _tree_map(file: File, call: ast.Call) -> Idiom | None:
    """A tree map of a function that does one of these to every leaf."""
    if len(call.args) != 2 or call.keywords:
        return None
    function, tree = call.args
    if takes_first(file, function):
        return Idiom(CellRole.FIRST, tree)
    if file.name(function) in SHARD:
        return Idiom(CellRole.SHARD, tree)
    known, body = _only_call(file, function)
    made = _by_hand(known.file, body) if known is not None and body is not None else None
    if known is None or made is None or not _is_parameter(known, made.tree):
        return None
    return made._replace(tree=tree)


def _only_call(file: File, function: ast.expr) -> tuple[Known | None, ast.Call | None]:
    """The function that an expression names, and the call that is all it does."""
    known = file.only(function)
    if not isinstance(known, Known) or not isinstance(known.node, (ast.FunctionDef, ast.Lambda)):
        return None, None
    bodies = known.returns()
    is_plain = not getattr(known.node, "decorator_list", []) and _does_nothing_else(known)
    body = bodies[0] if len(bodies) == 1 else None
    return known, body if is_plain and isinstance(body, ast.Call) else None


def _is_parameter(function: Known, node: ast.expr) -> bool:
    value = function.file.only(node)
    return isinstance(value, Argument) and value.function is function.node


def _by_hand(file: File, call: ast.Call) -> Idiom | None:
    """`x.reshape((n, -1) + x.shape[1:])`, `jnp.stack([x] * n)`, `jnp.broadcast_to(x, (n, …))`."""
    name = file.called(call)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "reshape" and not call.keywords:
        if name in _RESHAPES and len(call.args) == 2:
            array, shape = call.args[0], call.args[1:]
        elif name is None and call.args:
            array, shape = call.func.value, call.args
        else:
            return None
        return Idiom(CellRole.SHARD, array) if _splits(file, array, shape) else None
    if name == "jax.numpy.stack" and len(call.args) == 1 and not call.keywords:
        repeated = repeated_by(file, call.args[0])
        return Idiom(CellRole.REPLICATE, repeated[0]) if repeated is not None else None
    if name == "jax.numpy.broadcast_to" and len(call.args) == 2 and not call.keywords:
        array, shape = call.args[0], [call.args[1]]
        return Idiom(CellRole.REPLICATE, array) if _adds(file, array, shape) else None
    return None


def _splits(file: File, array: ast.expr, shape: list[ast.expr]) -> bool:
    """`(n, -1, *array.shape[1:])`, with `array.shape[0] // n` for the -1 or not."""
    entries, name = _entries(shape), ast.unparse(array)
    if len(entries) != 3 or not device_count(file, entries[0]):
        return False
    rows = entries[1]
    if isinstance(rows, ast.BinOp) and isinstance(rows.op, ast.FloorDiv):
        is_right = ast.unparse(rows.left) == f"{name}.shape[0]"
        rows = ast.Constant(-1 if is_right and device_count(file, rows.right) else 0)
    return ast.unparse(rows) == "-1" and _is_rest(entries[2], f"{name}.shape[1:]")


def _adds(file: File, array: ast.expr, shape: list[ast.expr]) -> bool:
    """`(n, *array.shape)`."""
    entries = _entries(shape)
    is_counted = len(entries) == 2 and device_count(file, entries[0]) is not None
    return is_counted and _is_rest(entries[1], f"{ast.unparse(array)}.shape")


def _is_rest(entry: ast.expr, shape: str) -> bool:
    texts = (shape, f"list({shape})", f"tuple({shape})")
    return isinstance(entry, ast.Starred) and ast.unparse(entry.value) in texts


def _entries(shape: list[ast.expr]) -> list[ast.expr]:
    """The entries of a shape; a value that is added to a tuple counts as `*value`."""
    node = shape[0]
    if len(shape) != 1:
        return shape
    if isinstance(node, (ast.Tuple, ast.List)):
        return node.elts
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        right = node.right
        added = right.elts if isinstance(right, (ast.Tuple, ast.List)) else [ast.Starred(right)]
        return [*_entries([node.left]), *added]
    return [node]


def _home_made(file: File, call: ast.Call, around: tuple[ast.AST, ...]) -> Idiom | None:
    """A call of a function of the program that does one of these, and nothing else."""
    known, body = _only_call(file, call.func)
    if known is None or body is None or known.node in around:  # the last: it calls itself
        return None
    inner = idiom(known.file, body, known, (*around, known.node))
    if inner is None or not _is_parameter(known, inner.tree):
        return None
    argument = known.file.only(inner.tree)
    assert isinstance(argument, Argument)
    tree = argument_for(known, argument.node.arg, call)
    # It is the only argument; devices, for example, keep their default.
    is_alone = len(call.args) + len(call.keywords) == 1
    return inner._replace(tree=tree) if tree is not None and is_alone else None


def _does_nothing_else(function: Known) -> bool:
    """Whether the body is a return, after assignments of constants and device counts."""
    if not isinstance(function.node, ast.FunctionDef):
        return True
    parameters = {argument.arg for argument in function.node.args.args}
    return all(
        isinstance(statement, (ast.Return, ast.FunctionDef))
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        or (isinstance(statement, ast.Assign) and _is_count(function.file, statement, parameters))
        for statement in function.node.body
    )


def _is_count(file: File, statement: ast.Assign, parameters: set[str]) -> bool:
    names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if len(names) != len(statement.targets) or parameters & set(names):
        return False
    return device_count(file, statement.value) is not None or isinstance(
        file.only(statement.value), (Constant, External)
    )
