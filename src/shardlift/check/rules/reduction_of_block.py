"""A reduction without an axis in a shard_map body that was written for pmap.

The shape of a block is `(128,)` under pmap and `(1, 128)` under shard_map. The reduction still
runs, but also removes the device axis: `P('i')` in `out_specs` no longer fits, and the mean of a
block with several rows is another mean. A body counts as written for pmap if the same function is
also pmapped, or if the caller passes an array with a leading device axis.
"""

import ast
from collections.abc import Iterator

from shardlift.check.pmap_bodies import block_uses
from shardlift.check.rules._examples import BLOCK_CALL, BLOCK_HEAD
from shardlift.source.file import File
from shardlift.source.model import GUIDE, Match, Rule

_NAMES = (
    *("sum", "mean", "max", "min", "prod", "std", "var", "all", "any", "median"),
    *("argmax", "argmin", "amax", "amin"),
)
_FUNCTIONS = frozenset(f"jax.numpy.{name}" for name in _NAMES)


def visit(file: File) -> Iterator[Match]:
    """`jnp.sum(x)` or `x.sum()` of a block, without an axis."""
    for use, name, (block, *_) in block_uses(file):
        if isinstance(use, ast.Call) and (name in _FUNCTIONS or name in _NAMES):
            last = name.rpartition(".")[2]
            if len(use.args) + len(use.keywords) <= int(name in _FUNCTIONS):
                text = f"{last} over the whole of `{block.id}`, including the device axis"
                yield Match(use, text)


RULE = Rule(
    code="SL705",
    summary="a reduction without axis over a block with the device axis",
    advice="Remove the axis first, as in x = x.squeeze(0), and add it to the result.",
    reference=f"{GUIDE}#update-your-mapped-function",
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        BLOCK_HEAD + "def f(x):\n    return jnp.sum(x)  # SL705\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return x - x.mean()  # SL705\np = jax.pmap(f)\n"
        "s = jax.shard_map(f, mesh=m, in_specs=P('i'), out_specs=P('i'))\n",
    ),
    good=(
        BLOCK_HEAD + "def f(x):\n    return jnp.sum(x, axis=1)\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    x = x.squeeze(0)\n    return jnp.sum(x)[None]\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return jnp.sum(x[0])[None]\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return jnp.sum(x)\n"
        "g = jax.jit(jax.shard_map(f, mesh=m, in_specs=P('i'), out_specs=P()))\ny = g(x)\n",
        BLOCK_HEAD + "def f(x):\n    return jnp.sum(x)\n"
        "g = jax.shard_map(f, mesh=m, in_specs=P(), out_specs=P())\ny = g(x.reshape((n, -1)))\n",
    ),
)
