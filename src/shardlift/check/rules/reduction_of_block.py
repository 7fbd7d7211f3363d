"""A reduction without an axis in a shard_map body that was written for pmap.

Under pmap the body saw `(128,)`, under shard_map it sees `(1, 128)`. The reduction still runs, but
its result has lost the device axis: `P('i')` in `out_specs` no longer fits, and a mean over a
block of more than one row is another mean. Bodies are taken to be pmap's when the same function
is also pmapped, or when the caller passes an array with a leading axis of devices.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlift.check.pmap_bodies import HEAD, RUN, block_calls
from shardlift.source.file import File
from shardlift.source.model import GUIDE, Effect, Match, Rule

_NAMES = (
    "sum",
    "mean",
    "max",
    "min",
    "prod",
    "std",
    "var",
    "all",
    "any",
    "median",
    "argmax",
    "argmin",
    "amax",
    "amin",
)
_FUNCTIONS = frozenset(f"jax.numpy.{name}" for name in _NAMES)


def visit(file: File) -> Iterator[Match]:
    """`jnp.sum(x)` or `x.sum()` of a block, without an axis."""
    for call, name, block in block_calls(file, _FUNCTIONS, frozenset(_NAMES)):
        given = len(call.args) + len(call.keywords)
        if given <= int(file.called(call) in _FUNCTIONS):
            yield Match(call, f"{name} over all of `{block}`, the device axis of the block too")


RULE = Rule(
    code="SL705",
    name="reduction-of-block",
    effect=Effect.WRONG,
    summary="a reduction without axis over a block that keeps the device axis",
    advice="Take the axis off first: x = x.squeeze(0); and put it back on what is returned.",
    explain=__doc__,
    reference=f"{GUIDE}#update-your-mapped-function",
    visit=visit,
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        HEAD + "def f(x):\n    return jnp.sum(x)  # SL705\n" + RUN,
        HEAD + "def f(x):\n    return x - x.mean()  # SL705\np = jax.pmap(f)\n"
        "s = jax.shard_map(f, mesh=m, in_specs=P('i'), out_specs=P('i'))\n",
    ),
    good=(
        HEAD + "def f(x):\n    return jnp.sum(x, axis=1)\n" + RUN,
        HEAD + "def f(x):\n    x = x.squeeze(0)\n    return jnp.sum(x)[None]\n" + RUN,
        HEAD + "def f(x):\n    return jnp.sum(x[0])[None]\n" + RUN,
        HEAD + "def f(x):\n    return jnp.sum(x)\n"
        "g = jax.jit(jax.shard_map(f, mesh=m, in_specs=P('i'), out_specs=P()))\ny = g(x)\n",
        HEAD + "def f(x):\n    return jnp.sum(x)\np = jax.pmap(f)\n",
        HEAD + "def f(x):\n    return jnp.sum(x)\n"
        "g = jax.shard_map(f, mesh=m, in_specs=P(), out_specs=P())\ny = g(x.reshape((n, -1)))\n",
    ),
)
