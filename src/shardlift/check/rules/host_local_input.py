"""A jitted shard_map gets an array that differs from process to process.

Unlike pmap, a jitted shard_map takes global arrays: a plain array counts as the whole array, equal
in every process. Join the local parts first, with `jax.make_array_from_process_local_data`.
"""

import ast
from collections.abc import Iterator

from shardlift.check.pmap_bodies import shard_map_calls
from shardlift.source.file import File
from shardlift.source.idioms import device_count, stacking_count
from shardlift.source.model import GUIDE, Match, Rule

_LOCAL = frozenset({"jax.process_index", "jax.local_device_count", "jax.local_devices"})
_JOINS = (
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "make_array_from_callback",
    "host_local_array_to_global_array",
    "device_put",
)


def visit(file: File) -> Iterator[Match]:
    """Arguments that are made from the index or the device count of this process."""
    for call, _ in shard_map_calls(file):
        for argument in call.args:
            if _is_local(file, argument) and file.many_processes:
                yield Match(argument, "the local part counts as the whole array")


def _is_local(file: File, node: ast.expr) -> bool:
    count = stacking_count(file, node)
    if count is not None:
        return device_count(file, count) == "local"
    made = file.definition(node)
    if isinstance(node, ast.Constant) or isinstance(made, ast.Name):
        return False
    calls = [inner for inner in ast.walk(made) if isinstance(inner, ast.Call)]
    names = [file.called(inner) or "" for inner in calls]
    if any(name.endswith(_JOINS) for name in names):
        return False
    return isinstance(made, (ast.Call, ast.Subscript)) and any(name in _LOCAL for name in names)


_STEP = "import jax\nstep = jax.jit(jax.shard_map(f, mesh=m, in_specs=s, out_specs=s))\n"

RULE = Rule(
    code="SL605",
    summary="a host-local array is passed to a jitted shard_map",
    advice="Use jax.make_array_from_process_local_data(sharding, x) first.",
    reference=f"{GUIDE}#the-migration-pattern-stitching",
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        f"{_STEP}mine = load(jax.process_index())\ny = step(mine)  # SL605",
        f"{_STEP}n = jax.process_count()\n"
        "y = step(x.reshape((jax.local_device_count(), -1)))  # SL605",
    ),
    good=(
        f"{_STEP}x = jax.make_array_from_process_local_data(s, load(jax.process_index()))\n"
        "y = step(x)",
        f"{_STEP}y = step(jax.device_put(load(jax.process_index()), s))",
        f"{_STEP}n = jax.process_count()\ny = step(x)",
        f"{_STEP}n = jax.process_count()\ny = step(np.ones(8))",
    ),
)
