"""How pmap code makes stacked arrays and reads them, as far as a rewrite can undo it.

Each idiom is a call of a library, or of a function of the program that does nothing else. The
looser readings of `source.idioms.stacked_by` are enough to warn, but not to write the array as it
was before: here every entry of a shape has to be understood.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from shardlift.rewrite.device_axis.cells import CellRole, WeakTypes
from shardlift.source.file import File
from shardlift.source.flax_helpers import has_new_helpers
from shardlift.source.guarded import is_caught
from shardlift.source.idioms import device_count, repeated_by, takes_first
from shardlift.source.libraries import REPLICATE, ROWS, SHARD, TREE_MAPS, UNREPLICATE
from shardlift.source.scopes import argument_at
from shardlift.source.values import Argument, Constant, External, Known, Result
from shardlift.source.wrappers import argument_for

# By JAX, a stack of weakly typed values is weakly typed (0.10.2 and 0.12), an array of a list not.
_STACKS = {
    "jax.numpy.stack": WeakTypes.KEPT,
    **dict.fromkeys(("jax.numpy.array", "numpy.stack", "numpy.array"), WeakTypes.ALL_TYPED),
}
_BROADCASTS = {
    "jax.numpy.broadcast_to": WeakTypes.KEPT,
    "numpy.broadcast_to": WeakTypes.ALL_TYPED,
}
# What orbax has for checkpoints of pmapped programs: one copy of a leaf that has one per device.
_UNREPLICATE_LEAF = frozenset(
    {
        "orbax.checkpoint.utils.fully_replicated_host_local_array_to_global_array",
        "orbax.checkpoint.multihost.fully_replicated_host_local_array_to_global_array",
    }
)
_RESHAPES = frozenset({"jax.numpy.reshape", "numpy.reshape"})


class Idiom(NamedTuple):
    """REPLICATE, SHARD, ROWS or FIRST, and the expression that it is given."""

    role: CellRole
    tree: ast.expr
    counts_all: bool = True  # False: `devices[:n]`, which may be some of the devices
    weak_types: WeakTypes = WeakTypes.KEPT


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
    role = (
        CellRole.REPLICATE
        if name in REPLICATE
        else CellRole.SHARD
        if name in SHARD
        else CellRole.ROWS
    )
    counts_all = devices is None or all_devices(file, devices, inside)
    if not counts_all and not (role is CellRole.REPLICATE and _first_devices(file, devices)):
        return None
    if any(keyword.arg != "devices" for keyword in call.keywords):
        return None
    is_typed = name == "flax.jax_utils.replicate" and has_new_helpers(file.project.settings)
    return Idiom(
        role, call.args[0], counts_all, WeakTypes.NUMBERS_TYPED if is_typed else WeakTypes.KEPT
    )


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


def _first_devices(file: File, node: ast.expr | None) -> bool:
    """`jax.local_devices()[:n]`."""
    sliced = file.definition(node) if node is not None else None
    if not isinstance(sliced, ast.Subscript) or not isinstance(sliced.slice, ast.Slice):
        return False
    from_first = sliced.slice.lower is None and sliced.slice.step is None
    return from_first and all_devices(file, sliced.value)


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
    if file.name(function) in _UNREPLICATE_LEAF:
        return Idiom(CellRole.FIRST, tree)
    known, bodies = _only_calls(file, function)
    idioms = [_by_hand(known.file, body) for body in bodies] if known is not None else []
    if known is None or not all(
        one is not None and _is_parameter(known, one.tree) for one in idioms
    ):
        return None
    kinds = {one._replace(tree=tree) for one in idioms if one is not None}
    if len({kind.weak_types for kind in kinds}) > 1:  # arrays by JAX, numbers by NumPy
        kinds = {kind._replace(weak_types=WeakTypes.NUMBERS_TYPED) for kind in kinds}
    return kinds.pop() if len(kinds) == 1 else None


def _only_calls(file: File, function: ast.expr) -> tuple[Known | None, list[ast.Call]]:
    """The function that an expression names, and the calls; one of them is all it does.

    There are several if it tests the type of its argument.
    """
    known = file.only(function)
    if not isinstance(known, Known) or not isinstance(known.node, (ast.FunctionDef, ast.Lambda)):
        return None, []
    bodies = known.returns()
    is_plain = not getattr(known.node, "decorator_list", []) and _does_nothing_else(known)
    calls = [body for body in bodies if isinstance(body, ast.Call)]
    return known, calls if is_plain and len(calls) == len(bodies) else []


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
    if name in _STACKS and len(call.args) == 1 and not call.keywords:
        made = _repeated(file, call.args[0])
        return made and made._replace(weak_types=_STACKS[name])
    if name == "jax.device_put" and len(call.args) == 2 and not call.keywords:
        placed = call.args[0]
        made = _by_hand(file, placed) if isinstance(placed, ast.Call) else None
        return made if made is not None and made.role is CellRole.REPLICATE else None
    if name in _BROADCASTS and len(call.args) == 2 and not call.keywords:
        array, shape = call.args[0], [call.args[1]]
        made = Idiom(CellRole.REPLICATE, array, weak_types=_BROADCASTS[name])
        return made if _adds(file, array, shape) else None
    return None


def _repeated(file: File, node: ast.expr) -> Idiom | None:
    """`[x] * n`, where `n` counts all devices, or `[x] * len(devices)` with `devices[:n]`."""
    repeated = repeated_by(file, node)
    if repeated is not None:
        return Idiom(CellRole.REPLICATE, repeated[0])
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return None
    listed, count = node.left, node.right
    is_counted = isinstance(count, ast.Call) and file.called(count) == "builtins.len"
    if not is_counted or not isinstance(listed, ast.List) or len(listed.elts) != 1:
        return None
    some = len(count.args) == 1 and _first_devices(file, count.args[0])  # type: ignore[attr-defined]
    return Idiom(CellRole.REPLICATE, listed.elts[0], counts_all=False) if some else None


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
    known, bodies = _only_calls(file, call.func)
    if known is None or len(bodies) != 1 or known.node in around:  # the last: it calls itself
        return None
    inner = idiom(known.file, bodies[0], known, (*around, known.node))
    if inner is None or not _is_parameter(known, inner.tree):
        return None
    argument = known.file.only(inner.tree)
    assert isinstance(argument, Argument)
    tree = argument_for(known, argument.node.arg, call)
    if tree is None or not _only_given(call, tree):
        return None
    return inner._replace(tree=tree)


def _only_given(call: ast.Call, tree: ast.expr) -> bool:
    """Whether the tree is the only argument; devices, for example, keep their default."""
    return len(call.args) + len(call.keywords) == 1 and any(
        tree is one for one in (*call.args, *(k.value for k in call.keywords))
    )


def _does_nothing_else(function: Known) -> bool:
    """Whether the body is a return, after assignments of constants and device counts.

    Or several returns, by the type of the argument.
    """
    if not isinstance(function.node, ast.FunctionDef):
        return True
    parameters = {argument.arg for argument in function.node.args.args}
    tested = [one for one in function.node.body if isinstance(one, ast.If)]
    branches = [one for test in tested for one in (*test.body, *test.orelse)]
    is_returned = any(isinstance(one, ast.Return) for one in function.node.body)
    if not is_returned or not all(isinstance(branch, ast.Return) for branch in branches):
        return False
    return all(
        isinstance(statement, (ast.Return, ast.FunctionDef))
        or (isinstance(statement, ast.If) and _tests_type(function.file, statement))
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        or (isinstance(statement, ast.Assign) and _is_count(function.file, statement, parameters))
        for statement in function.node.body
    )


def _tests_type(file: File, statement: ast.If) -> bool:
    return file.called(statement.test) == "builtins.isinstance"


def _is_count(file: File, statement: ast.Assign, parameters: set[str]) -> bool:
    names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if len(names) != len(statement.targets) or parameters & set(names):
        return False
    return device_count(file, statement.value) is not None or isinstance(
        file.only(statement.value), (Constant, External)
    )
