"""A pmapped function is given an array that was placed on one device, or whole on all of them.

The old pmap moved such an input where it belonged. The new one raises, as jit does: the sharding
of the argument is not the one that the mapped axis asks for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Effect, Match, Rule
from shardlift.source.shard_maps import spec
from shardlift.source.values import Constant, Mapped, Result

_DEVICES = frozenset({"jax.devices", "jax.local_devices"})


def visit(file: File) -> Iterator[Match]:
    """An argument that comes straight from `jax.device_put` onto the wrong place."""
    for call, mapped in file.mapped_calls:
        if not _maps_axis_zero(mapped):
            continue
        for argument in call.args:
            where = _placed(file, argument)
            if where:
                yield Match(argument, f"a mapped input was placed {where}: pmap raises")


def _maps_axis_zero(mapped: Mapped) -> bool:
    located = mapped.keywords.get("in_axes")
    if located is None:
        return "static_broadcasted_argnums" not in mapped.keywords
    value = located.file.only(located.node)
    return isinstance(value, Constant) and value.value == 0


def _placed(file: File, node: ast.expr) -> str | None:
    value = file.only(node)
    if not isinstance(value, Result) or value.path != "jax.device_put" or len(value.call.args) < 2:
        return None
    place = value.file.definition(value.call.args[1])
    if isinstance(place, ast.Subscript) and isinstance(place.slice, ast.Constant):
        return "on one device" if value.file.called(place.value) in _DEVICES else None
    name = value.file.called(place)
    if name in ("jax.NamedSharding", "jax.sharding.NamedSharding"):
        assert isinstance(place, ast.Call)
        if len(place.args) == 2 and spec(value.file, place.args[1]) == ():
            return "whole on every device"
    return None


RULE = Rule(
    code="SL303",
    name="misplaced-input",
    effect=Effect.BROKEN,
    summary="an input of a pmapped function was placed elsewhere",
    advice="Place it along the mapped axis: NamedSharding(mesh, P('axis')); or in_axes=None.",
    explain=__doc__,
    reference=f"{GUIDE}#valueerror-received-incompatible-devices",
    visit=visit,
    words=("pmap",),
    bad=(
        "import jax\nstep = jax.pmap(f)\nx = jax.device_put(x, jax.devices()[0])\n"
        "y = step(x)  # SL303",
        "import jax\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n"
        "step = jax.pmap(f)\ny = step(jax.device_put(x, NamedSharding(mesh, P())))  # SL303",
    ),
    good=(
        "import jax\nstep = jax.pmap(f)\ny = step(x)",
        "import jax\nstep = jax.pmap(f)\ny = step(jax.device_put(x))",
        "import jax\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n"
        "step = jax.pmap(f)\ny = step(jax.device_put(x, NamedSharding(mesh, P('i'))))",
        "import jax\nstep = jax.pmap(f, in_axes=None)\n"
        "y = step(jax.device_put(x, jax.devices()[0]))",
        "import jax\nstep = jax.jit(f)\ny = step(jax.device_put(x, jax.devices()[0]))",
    ),
    since=(0, 8),
)
