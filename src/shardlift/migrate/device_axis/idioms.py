"""How pmap code makes stacked arrays and reads them, as far as a rewrite can undo it.

Each idiom is a call, of a library or of a function of the program that does nothing else, and the
expression of the tree that it is given.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from shardlift.source.file import File
from shardlift.source.idioms import device_count, takes_first, unreplicated
from shardlift.source.libraries import REPLICATE, TREE_MAPS, UNREPLICATE
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.values import Argument, Constant, External, Known, Result
from shardlift.source.wrappers import given

_SHARD = frozenset({"flax.training.common_utils.shard"})
_ROWS = frozenset({"flax.training.common_utils.shard_prng_key", "jax.device_put_sharded"})
_STACKS = frozenset(f"{m}.{f}" for m in ("jax.numpy", "numpy") for f in ("stack", "array"))
_BROADCASTS = frozenset({"jax.numpy.broadcast_to", "numpy.broadcast_to"})
_RESHAPES = frozenset({"jax.numpy.reshape", "numpy.reshape"})


class Idiom(NamedTuple):
    """`replicate`, `shard`, `first` or `rows`, and the expression that it is given."""

    kind: str
    tree: ast.expr


def idiom(file: File, call: ast.Call, inside: Known | None = None) -> Idiom | None:
    """The idiom that a call is, if it is one; `inside` a function that is called without more."""
    name = file.called(call)
    if name in TREE_MAPS:
        return _tree_map(file, call)
    if name in REPLICATE | _SHARD | _ROWS or name == "jax.random.split":
        return _library(file, call, name or "", inside)
    if name in UNREPLICATE or name is None:
        if name in UNREPLICATE and len(call.args) == 1 and not call.keywords:
            return Idiom("first", call.args[0])
        return _by_hand(file, call) or _home_made(file, call)
    return _by_hand(file, call)


def _library(file: File, call: ast.Call, name: str, inside: Known | None) -> Idiom | None:
    if not call.args or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    if name == "jax.random.split":
        count = call.args[1] if len(call.args) > 1 else _keyword(call, "num")
        counted = count is not None and device_count(file, count)
        return Idiom("rows", call.args[0]) if counted else None
    devices = call.args[1] if len(call.args) > 1 else _keyword(call, "devices")
    if name == "jax.device_put_sharded" and not isinstance(devices, ast.expr):
        return None
    if devices is not None and not _all_devices(file, devices, inside):
        return None
    if any(keyword.arg != "devices" for keyword in call.keywords):
        return None
    kind = "replicate" if name in REPLICATE else "shard" if name in _SHARD else "rows"
    return Idiom(kind, call.args[0])


def _all_devices(file: File, node: ast.expr, inside: Known | None) -> bool:
    """`jax.devices()`, `jax.local_devices()`; `devices or jax.local_devices()` of a default."""
    node = file.definition(node)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and len(node.values) == 2:
        unset = inside is not None and _is_none(inside, node.values[0])
        return unset and _all_devices(file, node.values[1], inside)
    value = file.only(node)
    return (
        isinstance(value, Result)
        and value.path in ("jax.devices", "jax.local_devices")
        and not value.call.args
        and not value.call.keywords
    )


def _is_none(function: Known, node: ast.expr) -> bool:
    """Whether an expression is a parameter of a function, None unless it is given."""
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
        return Idiom("first", tree)
    named = file.name(function)
    if named in _SHARD:
        return Idiom("shard", tree)
    value = file.only(function)
    if not isinstance(value, Known) or not isinstance(value.node, FUNCTIONS):
        return None
    bodies = value.returns()
    if len(bodies) != 1 or not isinstance(bodies[0], ast.Call):
        return None
    found = _by_hand(value.file, bodies[0])
    if found is None or not _is_parameter(value, found.tree):
        return None
    return Idiom(found.kind, tree) if _does_nothing_else(value) else None


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
        return Idiom("shard", array) if _splits(file, array, shape) else None
    if name in _STACKS and len(call.args) == 1 and not call.keywords:
        repeated = _repeated(file, call.args[0])
        return Idiom("replicate", repeated) if repeated is not None else None
    if name in _BROADCASTS and len(call.args) == 2 and not call.keywords:
        array, shape = call.args[0], [call.args[1]]
        return Idiom("replicate", array) if _adds(file, array, shape) else None
    return None


def _splits(file: File, array: ast.expr, shape: list[ast.expr]) -> bool:
    """Whether a shape is `(n, -1, *array.shape[1:])`."""
    entries = _entries(file, shape)
    if len(entries) != 3 or entries[0] is None or not device_count(file, entries[0]):
        return False
    second = entries[1]
    split = isinstance(second, ast.UnaryOp) and ast.unparse(second) == "-1"
    rest = isinstance(second, ast.BinOp) and isinstance(second.op, ast.FloorDiv)
    if rest and isinstance(second, ast.BinOp):
        by = device_count(file, second.right) is not None
        split = by and ast.unparse(second.left) == f"{ast.unparse(array)}.shape[0]"
    return split and _is_rest(array, entries[2], "[1:]")


def _adds(file: File, array: ast.expr, shape: list[ast.expr]) -> bool:
    entries = _entries(file, shape)
    if len(entries) != 2 or entries[0] is None or not device_count(file, entries[0]):
        return False
    return _is_rest(array, entries[1], "")


def _is_rest(array: ast.expr, entry: ast.expr | None, slice_text: str) -> bool:
    if not isinstance(entry, ast.Starred):
        return False
    said = ast.unparse(entry.value)
    shape = f"{ast.unparse(array)}.shape{slice_text}"
    return said in (shape, f"list({shape})", f"tuple({shape})")


def _entries(file: File, shape: list[ast.expr]) -> list[ast.expr | None]:
    """The entries of a shape; what is added to a tuple is one that is unpacked into it."""
    if len(shape) != 1:
        return list(shape)
    node = shape[0]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left = _entries(file, [node.left])
        right = node.right
        if isinstance(right, (ast.Tuple, ast.List)):
            return [*left, *right.elts]
        return [*left, ast.Starred(right, ast.Load())]
    if isinstance(node, (ast.Tuple, ast.List)):
        return list(node.elts)
    return [node]


def _repeated(file: File, node: ast.expr) -> ast.expr | None:
    """The `x` of `[x] * n`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return None
    for side, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(side, ast.List) and len(side.elts) == 1 and device_count(file, other):
            return side.elts[0]
    return None


def _home_made(file: File, call: ast.Call) -> Idiom | None:
    """A call of a function of the program that is one of these, and no more."""
    value = file.only(call.func)
    if not isinstance(value, Known) or not isinstance(value.node, (ast.FunctionDef, ast.Lambda)):
        return None
    tree = unreplicated(file, call)
    bodies = value.returns()
    if len(bodies) != 1 or not isinstance(bodies[0], ast.Call):
        return None
    if not _does_nothing_else(value) or getattr(value.node, "decorator_list", []):
        return None
    if tree is not None:
        return Idiom("first", tree) if _only_given(call, tree) else None
    inner = idiom(value.file, bodies[0], value)
    if inner is None or not _is_parameter(value, inner.tree):
        return None
    argument = value.file.only(inner.tree)
    assert isinstance(argument, Argument)
    tree = given(value, argument.node.arg, call)
    if tree is None or not _only_given(call, tree):
        return None
    return Idiom(inner.kind, tree)


def _only_given(call: ast.Call, tree: ast.expr) -> bool:
    """Whether the tree is all that the call gives: devices, say, are left to their default."""
    return len(call.args) + len(call.keywords) == 1 and any(
        tree is one for one in (*call.args, *(k.value for k in call.keywords))
    )


_QUIET = (ast.Return, ast.FunctionDef)


def _does_nothing_else(function: Known) -> bool:
    """Whether the body is a return, after assignments of names and counts that it may use."""
    if isinstance(function.node, ast.Lambda):
        return True
    assert isinstance(function.node, (ast.FunctionDef, ast.AsyncFunctionDef))
    parameters = {a.arg for a in function.node.args.args}
    for statement in function.node.body:
        if isinstance(statement, _QUIET):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Assign) and _is_count(function.file, statement, parameters):
            continue
        return False
    return True


def _is_count(file: File, statement: ast.Assign, parameters: set[str]) -> bool:
    names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if len(names) != len(statement.targets) or parameters & set(names):
        return False
    return device_count(file, statement.value) is not None or isinstance(
        file.only(statement.value), (Constant, External)
    )


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)
