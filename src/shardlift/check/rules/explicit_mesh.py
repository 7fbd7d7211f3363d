"""shard_map gets a mesh from `jax.make_mesh`, whose axes are Explicit since JAX 0.9.

It then raises an error for every input that does not already have the sharding of `in_specs`, such
as a NumPy array or an array on one device. `jax.sharding.Mesh` has Auto axes, as pmap did. Nothing
is reported if the file builds a NamedSharding on the same mesh: it probably places its inputs.
"""

from collections.abc import Iterator

from shardlift.check.rules._examples import SPECS
from shardlift.source.file import File
from shardlift.source.libraries import NAMED_SHARDINGS
from shardlift.source.model import SHARD_MAP, Match, Rule
from shardlift.source.shard_maps import spec
from shardlift.source.values import Result


def visit(file: File) -> Iterator[Match]:
    """`mesh=` arguments that can only be a make_mesh without `axis_types`."""
    for shard_map in file.shard_maps:
        mesh, specs = shard_map.keywords.get("mesh"), shard_map.keywords.get("in_specs")
        value = file.only(mesh) if mesh is not None else None
        if mesh is None or specs is None or spec(file, specs) == ():
            continue
        if isinstance(value, Result) and value.path == "jax.make_mesh":
            typed = any(key.arg in ("axis_types", None) for key in value.call.keywords)
            shardings = (call for call in file.calls_of(*NAMED_SHARDINGS) if call.args)
            places = any(file.only(call.args[0]) == value for call in shardings)
            if len(value.call.args) <= 2 and not typed and not places:
                text = "make_mesh creates Explicit axes: unplaced inputs raise an error"
                yield Match(mesh, text)


_MADE = f"{SPECS}mesh = jax.make_mesh((8,), ('i',))\n"
_CALL = "f = jax.shard_map(g, mesh=mesh, in_specs=P('i'), out_specs=P('i'))"

RULE = Rule(
    code="SL701",
    summary="shard_map gets a mesh with Explicit axes from make_mesh",
    advice="Use jax.sharding.Mesh or axis_types=(AxisType.Auto,), or place the inputs.",
    reference=SHARD_MAP,
    names=("jax.make_mesh",),
    bad=(
        f"{_MADE}{_CALL}  # SL701",
        f"{_MADE}from functools import partial\n"
        "@partial(jax.shard_map, mesh=mesh, in_specs=P('i'), out_specs=P('i'))  # SL701\n"
        "def f(x):\n    return x",
    ),
    good=(
        f"{SPECS}mesh = jax.sharding.Mesh(devices, ('i',))\n{_CALL}",
        f"{SPECS}mesh = jax.make_mesh((8,), ('i',), axis_types=types)\n{_CALL}",
        f"{_MADE}f = jax.shard_map(g, mesh=mesh, in_specs=P(), out_specs=P())",
        f"{_MADE}x = jax.device_put(x, jax.NamedSharding(mesh, P('i')))\n{_CALL}",
    ),
    since=(0, 9),
)
