"""How pmap code makes stacked arrays and reads them, as far as a rewrite can undo it.

Each idiom is a call of a library, or of a function of the program that does nothing else. What
`source.idioms.stacking_count` reads is enough to warn, but not to write the array as it was before:
here every entry of a shape has to be understood.
"""

import ast
import re
from typing import NamedTuple

from shardlift.rewrite.device_axis.cells import CellRole
from shardlift.source.file import File
from shardlift.source.flax_helpers import has_new_helpers
from shardlift.source.guarded import is_caught
from shardlift.source.idioms import device_count, leading_count, repeated_by, takes_first
from shardlift.source.libraries import REPLICATE, ROWS, SHARD, TREE_MAPS, UNREPLICATE
from shardlift.source.scopes import argument_at, has_star, positional
from shardlift.source.values import Argument, Constant, External, Known, Result
from shardlift.source.wrappers import argument_for

_RESHAPES = frozenset({"jax.numpy.reshape", "numpy.reshape"})
# Shapes with one more axis than the array X, where N counts devices.
_SPLIT = (
    "(N, -1) + X.shape[1:]",
    "(N, -1, *X.shape[1:])",
    "(N, X.shape[0] // N) + X.shape[1:]",
    "(N, X.shape[0] // N, *X.shape[1:])",
)
_REPEATED = ("(N,) + X.shape", "(N, *X.shape)")


class Idiom(NamedTuple):
    """REPLICATE, SHARD, ROWS or FIRST, and the expression that it is given."""

    role: CellRole
    tree: ast.expr
    types_numbers: bool = False  # of REPLICATE: Python numbers get a type


def idiom(file: File, call: ast.Call, around: tuple[Known, ...] = ()) -> Idiom | None:
    """The idiom that a call is, if it is one.

    `around` are functions that do nothing but this call, each called by the one before it.
    """
    name = file.called(call)
    if name in TREE_MAPS:
        made = _tree_map(file, call)
    elif name in REPLICATE | SHARD | ROWS or name == "jax.random.split":
        made = _library(file, call, name or "")
    elif name in UNREPLICATE and len(call.args) == 1 and not call.keywords:
        made = Idiom(CellRole.FIRST, call.args[0])
    else:
        made = _by_hand(file, call) or (_home_made(file, call, around) if name is None else None)
    # Rows that do not fit are an error where they are split, and would be one of the step.
    is_split = made is not None and made.role is CellRole.SHARD
    return None if is_split and is_caught(file, call, "ValueError") else made


def _library(file: File, call: ast.Call, name: str) -> Idiom | None:
    if not call.args or has_star(call.args):
        return None
    if name == "jax.random.split":
        count = argument_at(call, 1, "num")
        counted = count is not None and device_count(file, count)
        return Idiom(CellRole.ROWS, call.args[0]) if counted else None
    devices = argument_at(call, 1, "devices")
    usual = name != "jax.device_put_sharded"
    is_on_all = usual if devices is None else _are_all_devices(file, devices)
    if not is_on_all or any(keyword.arg != "devices" for keyword in call.keywords):
        return None
    if name in REPLICATE:
        is_typed = name == "flax.jax_utils.replicate" and has_new_helpers(file.project.settings)
        return Idiom(CellRole.REPLICATE, call.args[0], is_typed)
    return Idiom(CellRole.SHARD if name in SHARD else CellRole.ROWS, call.args[0])


def _are_all_devices(file: File, node: ast.expr) -> bool:
    """`jax.devices()` or `jax.local_devices()`."""
    value = file.only(node)
    if not isinstance(value, Result) or value.call.args or value.call.keywords:
        return False
    return value.path in ("jax.devices", "jax.local_devices")


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
    is_whole = known is not None and made is not None and _parameter(known, made.tree)
    return made._replace(tree=tree) if made is not None and is_whole else None


def _only_call(file: File, function: ast.expr) -> tuple[Known | None, ast.Call | None]:
    """The function that an expression names, and the call that is all it does."""
    known = file.only(function)
    if not isinstance(known, Known) or not isinstance(known.node, (ast.FunctionDef, ast.Lambda)):
        return None, None
    bodies = known.returns()
    is_plain = not getattr(known.node, "decorator_list", []) and _does_nothing_else(known)
    body = bodies[0] if len(bodies) == 1 else None
    return known, body if is_plain and isinstance(body, ast.Call) else None


def _parameter(function: Known, node: ast.expr) -> str | None:
    """The name of the parameter of a function that an expression is."""
    value = function.file.only(node)
    if not isinstance(value, Argument) or value.function is not function.node:
        return None
    return value.node.arg


def _by_hand(file: File, call: ast.Call) -> Idiom | None:
    """`x.reshape((n, -1) + x.shape[1:])`, `jnp.stack([x] * n)`, `jnp.broadcast_to(x, (n, …))`."""
    name, given = file.called(call), call.args
    if call.keywords or not given:
        return None
    if name == "jax.numpy.stack" and len(given) == 1:
        repeated = repeated_by(file, given[0])
        return Idiom(CellRole.REPLICATE, repeated[0]) if repeated is not None else None
    if name == "jax.numpy.broadcast_to" and len(given) == 2:
        is_stacked = _has_shape(file, given[0], given[1:], _REPEATED)
        return Idiom(CellRole.REPLICATE, given[0]) if is_stacked else None
    if name is None and isinstance(call.func, ast.Attribute) and call.func.attr == "reshape":
        given = [call.func.value, *given]
    elif name not in _RESHAPES or len(given) != 2:
        return None
    is_split = _has_shape(file, given[0], given[1:], _SPLIT)
    return Idiom(CellRole.SHARD, given[0]) if is_split else None


def _has_shape(
    file: File, array: ast.expr, shape: list[ast.expr], patterns: tuple[str, ...]
) -> bool:
    """Whether a shape, or its entries, is one of the patterns for an array."""
    node = shape[0] if len(shape) == 1 else ast.Tuple(shape, ast.Load())
    count = leading_count(file, node)
    if count is None:
        return False
    names = {"N": ast.unparse(count), "X": ast.unparse(array)}
    text = re.sub(r"\b(tuple|list)\((.*)\)", r"\2", ast.unparse(node))
    text = re.sub(r"^\[(.*?)\](?= \+|$)", r"(\1)", text)  # a list is as good as a tuple
    return text in (re.sub("[NX]", lambda match: names[match[0]], shape) for shape in patterns)


def _home_made(file: File, call: ast.Call, around: tuple[Known, ...]) -> Idiom | None:
    """A call of a function of the program that does one of these, and nothing else."""
    known, body = _only_call(file, call.func)
    if known is None or body is None or known in around:  # the last: it calls itself
        return None
    inner = idiom(known.file, body, (*around, known))
    parameter = _parameter(known, inner.tree) if inner is not None else None
    tree = argument_for(known, parameter, call) if parameter is not None else None
    # It is the only argument; devices, for example, keep their default.
    is_alone = len(call.args) + len(call.keywords) == 1
    return inner._replace(tree=tree) if inner and tree is not None and is_alone else None


def _does_nothing_else(function: Known) -> bool:
    """Whether the body is a return, after assignments of constants and device counts."""
    if not isinstance(function.node, ast.FunctionDef):
        return True
    for statement in function.node.body:
        match statement:
            case ast.Return() | ast.FunctionDef() | ast.Expr(ast.Constant()):
                continue
            case ast.Assign([ast.Name(name)], value) if name not in positional(function.node):
                is_constant = isinstance(function.file.only(value), (Constant, External))
                if is_constant or device_count(function.file, value) is not None:
                    continue
        return False
    return True
