"""A layer or a random function is called with a block that still has the device axis.

Layers count dimensions: a convolution treats the device axis as the batch, and an Equinox module
for one example gets a stack of examples. A key of shape `(1, 2)` is an array of keys, which random
functions reject.
"""

import ast
from collections.abc import Iterator

from shardlift.check.pmap_bodies import block_uses
from shardlift.check.rules._examples import BLOCK_HEAD, SHARD_MAP
from shardlift.source.file import File
from shardlift.source.model import GUIDE, Match, Rule

_KEYED = frozenset(
    f"jax.random.{name}"
    for name in ("normal", "uniform", "split", "fold_in", "bernoulli", "randint")
)


def visit(file: File) -> Iterator[Match]:
    """`model.apply(params, x)` with a block as data, and random functions with a block as key."""
    for use, name, blocks in block_uses(file):
        if not isinstance(use, ast.Call):
            continue
        if name in _KEYED:
            if use.args[0] in blocks:
                yield Match(use, f"`{file.text(use.args[0])}` is an array of one key, not a key")
        elif isinstance(use.func, ast.Attribute) and use.func.attr == "apply":
            data = [argument for argument in use.args[1:] if argument in blocks]
            if data:
                text = f"a layer gets `{file.text(data[0])}`, which has the device axis"
                yield Match(use, text)


_RUN = f"{SHARD_MAP}y = g(jax.random.split(key, n))\n"

RULE = Rule(
    code="SL708",
    summary="a layer or a random function on a block with the device axis",
    advice="Remove the axis first: x.squeeze(0), key[0].",
    reference=f"{GUIDE}#update-your-mapped-function",
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        BLOCK_HEAD + "def f(key):\n    return jax.random.normal(key, (4,))  # SL708\n" + _RUN,
        BLOCK_HEAD + "def f(x):\n    return model.apply(params, x)  # SL708\np = jax.pmap(f)\n"
        "s = jax.shard_map(f, mesh=m, in_specs=P('i'), out_specs=P('i'))\n",
    ),
    good=(
        BLOCK_HEAD + "def f(key):\n    return jax.random.normal(key[0], (4,))[None]\n" + _RUN,
        BLOCK_HEAD
        + "def f(key):\n    key = key.squeeze(0)\n    return model.apply(p, key)\n"
        + _RUN,
        BLOCK_HEAD + "def f(x):\n    return x.apply(params)\n" + _RUN,
    ),
)
