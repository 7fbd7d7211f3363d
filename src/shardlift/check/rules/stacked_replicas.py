"""A value is copied once per device along a new leading axis, as replicas for pmap.

The migration guide's drop-in for `device_put_replicated` stacks all copies on one device before it
places them: `jax.device_put(jnp.stack([y] * len(devices)), sharding)`. With
`jax.make_array_from_callback` each device gets its row at once.

For JAX this array is sharded and not replicated, so every later `x[0]` is a gather. With
`in_axes=None` in pmap, or `P()` in shard_map, there is one logical value instead.
"""

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import device_count, mapped_inputs, repeated_list, stacking_count
from shardlift.source.libraries import NAMED_SHARDINGS, SPECS, TREE_MAPS
from shardlift.source.model import GUIDE, Edit, Kind, Level, Match, Rule

_WIDE = 80
_STACKS = frozenset({"jax.numpy.stack", "jax.numpy.array", "jax.numpy.broadcast_to"})


def visit(file: File) -> Iterator[Match]:
    """Inputs of pmap that are repeated by the number of devices."""
    for made in mapped_inputs(file):
        if _repeats(file, made) and stacking_count(file, made) is not None:
            yield Match(made, "one copy per device is stacked along a new axis for pmap")
    yield from _drop_ins(file)


def _drop_ins(file: File) -> Iterator[Match]:
    """`jax.device_put(jnp.stack([y] * len(devices)), rows)`, as the migration guide shows it."""
    for put in file.calls_of("jax.device_put"):
        placed = _arguments(file, put, "jax.device_put")
        stacked = _arguments(file, placed[0], "jax.numpy.stack") if len(placed) == 2 else []
        if len(stacked) != 1 or (repeated := repeated_list(stacked[0])) is None:
            continue
        row, count = repeated
        listed = _arguments(file, count, "builtins.len")
        named = len(listed) == 1 and "devices" in file.text(listed[0])
        if named or device_count(file, count) is not None:
            splits = named and file.text(listed[0]) == _devices_of_rows(file, placed[1])
            edits = _by_row(file, put, row, count) if splits else ()
            text = "all copies are made on one device before they are placed: n times the memory"
            yield Match(put, text, edits, kind=Kind.PLACEMENT)


def _by_row(file: File, put: ast.Call, row: ast.expr, count: ast.expr) -> tuple[Edit, ...]:
    """One row is placed on each device."""
    stack, sharding = put.args
    if not isinstance(row, ast.Name) or not isinstance(put.func, ast.Attribute):
        return ()
    if not isinstance(stack, ast.Call) or not isinstance(stack.func, ast.Attribute):
        return ()
    jax, jnp = file.text(put.func.value), file.text(stack.func.value)
    shape = f"({file.text(count)}, *{jnp}.shape({row.id}))"
    callback = f"lambda _: {jnp}.expand_dims({row.id}, 0)"
    arguments = f"{shape}, {file.text(sharding)}, {callback}"
    name = f"{jax}.make_array_from_callback"
    margin = file.margin(put.lineno)
    inner = f"\n{margin}    "
    if put.col_offset + len(name) + len(arguments) <= _WIDE:
        return (file.replace(put, f"{name}({arguments})"),)
    if len(inner) + len(arguments) > _WIDE:
        arguments = f"{shape},{inner}{file.text(sharding)},{inner}{callback},"
    return (file.replace(put, f"{name}({inner}{arguments}\n{margin})"),)


def _devices_of_rows(file: File, sharding: ast.expr) -> str:
    """The devices of `NamedSharding(Mesh(devices, ("x",)), P("x"))`, which has a row on each."""
    parts = _arguments(file, file.definition(sharding), *NAMED_SHARDINGS)
    mesh, spec = (file.definition(part) for part in parts) if len(parts) == 2 else (None, None)
    names = _arguments(file, spec, *SPECS)
    meshed = _arguments(file, mesh, "jax.sharding.Mesh")
    if len(names) != 1 or not isinstance(names[0], ast.Constant) or len(meshed) != 2:
        return ""
    return file.text((_arguments(file, meshed[0], "numpy.array") or meshed)[0])


def _arguments(file: File, node: ast.AST | None, *names: str) -> list[ast.expr]:
    """The arguments of a call of one of these functions that has no keywords."""
    plain = isinstance(node, ast.Call) and not node.keywords
    return node.args if plain and isinstance(node, ast.Call) and file.called(node) in names else []


def _repeats(file: File, node: ast.expr) -> bool:
    called = file.called(node) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and called in TREE_MAPS and isinstance(node.args[0], ast.Lambda):
        return _repeats(file, node.args[0].body)
    return called in _STACKS


RULE = Rule(
    code="SL301",
    level=Level.SLOW,
    summary="a value is stacked once per device",
    advice="Pass it once, with in_axes=None in pmap or P() in shard_map.",
    reference=f"{GUIDE}#option-1-prevent-unintended-sharding-recommended",
    words=("pmap", "stack"),
    pattern=re.compile(rb"pmap|stack\(\s*\[[^]]{0,99}\]\s*\*"),
    bad=(
        "import jax\nimport jax.numpy as jnp\nn = jax.local_device_count()\n"
        "p = jax.tree.map(lambda x: jnp.stack([x] * n), p)  # SL301\ny = jax.pmap(f)(p)",
        "import jax\nimport jax.numpy as jnp\ndef replicate(x, devices, rows):\n"
        "    return jax.tree.map(\n"
        "        lambda y: jax.device_put(jnp.stack([y] * len(devices)), rows), x)  # SL301",
    ),
    good=(
        "import jax\nimport jax.numpy as jnp\ny = jax.pmap(f)(jnp.stack([x] * 4))",
        "import jax\nimport jax.numpy as jnp\nn = jax.device_count()\nx = jnp.stack([x] * n)",
        "import jax\nimport jax.numpy as jnp\nx = jax.device_put(jnp.stack([x] * 4), rows)",
    ),
    rewritten_as=frozenset({Kind.NAME}),
)
