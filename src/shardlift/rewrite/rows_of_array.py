"""Shards that are the rows of one array, or one value many times: they need no helper.

`jax.device_put_sharded(list(a), devices)` is `jax.device_put(a, …)` with a sharding of the rows, if
`a` is certainly one array, and not a tree. `[x] * len(devices)` is `x` on every device.
"""

from __future__ import annotations

import ast

from shardlift.rewrite.call_format import CallText, Style, TextBlock, render
from shardlift.rewrite.names import is_free, jax_name
from shardlift.source.file import File
from shardlift.source.guarded import is_caught
from shardlift.source.idioms import repeated_list
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.reaching import reaching_bindings
from shardlift.source.scopes import argument_at, end
from shardlift.source.values import Known

SHARDED = "jax.device_put_sharded"
_LISTS = ("builtins.list", "builtins.tuple")
_MAKERS = "arange array asarray broadcast_to concatenate full ones reshape stack zeros"
_ARRAYS = frozenset(
    {f"{module}.{name}" for module in ("jax.numpy", "numpy") for name in _MAKERS.split()}
    | {f"jax.random.{name}" for name in ("normal", "randint", "split", "uniform")}
)


def place_rows(file: File, name: ast.expr, path: str) -> Match | None:
    """`jax.device_put(a, rows)` for a call of `device_put_sharded` with the rows of an array."""
    arguments = _arguments(file, name, path)
    if arguments is None or (given := _array(file, arguments[0])) is None:
        return None
    (array, edits), (_, devices) = given, arguments
    # Another number of rows than devices was an error: a program may count on it.
    call = file.index.parents[name]
    if "#" in file.text(call) or is_caught(file, name, "ValueError"):
        return None
    jax, imports = file.text(getattr(name, "value", name)), frozenset[str]()
    if isinstance(name, ast.Name):
        jax, imports = jax_name(file)
    if imports and not is_free(file, name, jax, "jax"):
        return None
    text = _text(file, call, jax, array, file.text(devices))
    edits = (file.replace(call, text), *edits)
    return Match(call, "", edits, imports, kind=Kind.PLACEMENT, name=SHARDED)


def repeated_value(file: File, name: ast.expr, path: str) -> tuple[Edit, ...]:
    """The edit of `[x] * len(devices)` to `x`; none if the shards are something else."""
    arguments = _arguments(file, name, path)
    repeated = repeated_list(arguments[0]) if arguments is not None else None
    if arguments is None or repeated is None or isinstance(repeated[0], ast.Starred):
        return ()
    is_count = file.called(repeated[1]) == "builtins.len"
    if not is_count or file.text(repeated[1]) != f"len({file.text(arguments[1])})":
        return ()
    return (file.replace(arguments[0], file.text(repeated[0])),)


def _arguments(file: File, name: ast.expr, path: str) -> tuple[ast.expr, ast.expr] | None:
    """The shards and the devices of a call."""
    call = file.index.parents.get(name)
    if path != SHARDED or not isinstance(call, ast.Call) or call.func is not name:
        return None
    if len(call.args) + len(call.keywords) != 2 or not call.args:
        return None
    shards, devices = call.args[0], argument_at(call, 1, "devices")
    if devices is None or isinstance(shards, ast.Starred) or isinstance(devices, ast.Starred):
        return None
    return shards, devices


def _array(file: File, shards: ast.expr) -> tuple[ast.expr, tuple[Edit, ...]] | None:
    """The array whose rows are the shards, and the edit where it was made a list before."""
    listed = file.definition(shards)
    if file.called(listed) not in _LISTS:
        return (shards, ()) if _is_array(file, shards) else None
    if len(listed.args) != 1 or listed.keywords or not _is_array(file, listed.args[0]):  # type: ignore[attr-defined]
        return None
    array: ast.expr = listed.args[0]  # type: ignore[attr-defined]
    if listed is shards:
        return array, ()
    made = file.index.parents.get(listed)
    if not isinstance(shards, ast.Name) or not isinstance(made, ast.Assign):
        return None
    is_plain = [file.text(target) for target in made.targets] == [shards.id]
    is_local = file.index.binding_scope(shards)[0] is not file.index.module
    if not is_plain or not is_local or _uses(file, shards) != [shards]:
        return None
    if "#" in file.text(listed):
        return None
    text = _block(file, array).at(file.margin(listed.lineno))
    return shards, (file.replace(listed, text),)


def _block(file: File, node: ast.expr) -> TextBlock:
    return TextBlock(file.text(node), file.margin(node.lineno))


def _is_array(file: File, node: ast.expr) -> bool:
    made = file.definition(node)
    if not isinstance(made, ast.Call) or isinstance(node, ast.Starred):
        return False
    if (name := file.called(made)) is not None:
        return name in _ARRAYS
    is_reshape = isinstance(made.func, ast.Attribute) and made.func.attr == "reshape"
    return is_reshape and not isinstance(file.only(made.func), Known)


def _uses(file: File, name: ast.Name) -> list[ast.Name]:
    """The places that may see what is assigned to a name."""
    bound = reaching_bindings(file.index, name)
    loads = (node for node in file.index.nodes(ast.Name) if node.id == name.id)
    reads = (node for node in loads if isinstance(node.ctx, ast.Load))
    return [n for n in reads if set(bound) & set(reaching_bindings(file.index, n))]


def _text(file: File, call: ast.AST, jax: str, array: ast.expr, devices: str) -> str:
    style, (line, column) = Style.of(file.source.text), end(call)
    axis, given = style.string("devices"), file.text(array)
    mesh = CallText(f"{jax}.sharding.Mesh", (devices, f"({axis},)"))
    rows = CallText(
        f"{jax}.sharding.NamedSharding", (mesh, f"{jax}.sharding.PartitionSpec({axis})")
    )
    after = len(file.lines[line - 1]) - file.stretch(line, column, line, column).column
    shards = _block(file, array) if "\n" in given else given
    place = CallText(f"{jax}.device_put", (shards, rows))
    margin = file.margin(call.lineno)  # type: ignore[attr-defined]
    return render(place, style, margin, file.span(call).column, after)
