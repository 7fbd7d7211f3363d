"""A pmapped function is called with an array that is on one device, or whole on every device.

The old pmap moved such an input to its devices. The new one raises, as jit does: the sharding of
the argument is not the sharding that the mapped axis needs.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Match, Rule
from shardlift.source.shard_maps import placed_spec, placement
from shardlift.source.values import Constant, Mapped

_DEVICES = frozenset({"jax.devices", "jax.local_devices"})


def visit(file: File) -> Iterator[Match]:
    """Arguments that `jax.device_put` placed on one device, or whole on every device."""
    for call, mapped in file.mapped_calls:
        if not _maps_axis_zero(mapped):
            continue
        for argument in call.args:
            other, place = placement(file, argument) or (file, None)
            if isinstance(place, ast.Subscript) and isinstance(place.slice, ast.Constant):
                where = "on one device" if other.called(place.value) in _DEVICES else ""
            else:
                where = "whole on every device" if placed_spec(file, argument) == () else ""
            if where:
                yield Match(argument, f"a mapped input is placed {where}: pmap raises an error")


def _maps_axis_zero(mapped: Mapped) -> bool:
    if mapped.keywords.keys() & {"devices", "backend"}:  # as the guide says, for such inputs
        return False
    located = mapped.keywords.get("in_axes")
    if located is None:
        return "static_broadcasted_argnums" not in mapped.keywords
    value = located.file.only(located.node)
    return isinstance(value, Constant) and value.value == 0


RULE = Rule(
    code="SL303",
    summary="an input of a pmapped function has the wrong placement",
    advice="Place it with NamedSharding(mesh, P('axis')), or do not map it: None in in_axes.",
    reference=f"{GUIDE}#valueerror-received-incompatible-devices",
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
        "import jax\nstep = jax.pmap(f, in_axes=(None, 0))\n"
        "y = step(jax.device_put(x, jax.devices()[0]), rows)",
        "import jax\nd = jax.devices()\nstep = jax.pmap(f, devices=d[:1])\n"
        "y = step(jax.device_put(x, jax.devices()[0]))",
    ),
    since=(0, 8),
)
