"""A reshape, transpose, squeeze or expand_dims in a shard_map body that was written for pmap.

Each of them counts axes, and the block has one more: a transpose swaps other axes, a squeeze
without an axis removes every axis of size one, a reshape moves the device axis into the data.
"""

import ast
from collections.abc import Iterator

from shardlift.check.pmap_bodies import block_uses
from shardlift.check.rules._examples import BLOCK_CALL, BLOCK_HEAD
from shardlift.source.file import File
from shardlift.source.model import GUIDE, Match, Rule

_NAMES = (
    *("reshape", "transpose", "squeeze", "expand_dims", "ravel"),
    *("swapaxes", "moveaxis", "flip", "roll"),
)
_FUNCTIONS = frozenset(f"jax.numpy.{name}" for name in _NAMES)
_METHODS = frozenset({*_NAMES, "flatten"} - {"expand_dims", "moveaxis", "flip", "roll"})


def visit(file: File) -> Iterator[Match]:
    """Calls of these functions on the block itself, and `.T`."""
    for use, name, (block, *_) in block_uses(file):
        if name in _FUNCTIONS or (name in _METHODS and isinstance(use, ast.Call)):
            last = name.rpartition(".")[2]
            yield Match(use, f"{last} of `{block.id}`, which has one axis more than under pmap")
        elif name in ("T", "mT"):
            yield Match(use, f"`{file.text(use)}` also transposes the device axis")


RULE = Rule(
    code="SL707",
    summary="reshape, transpose or squeeze of a block with the device axis",
    advice="Remove the axis first, as in x = x.squeeze(0), and add it to the result.",
    reference=f"{GUIDE}#update-your-mapped-function",
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        BLOCK_HEAD + "def f(x):\n    return jnp.transpose(x)  # SL707\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return x.reshape(-1, 4)  # SL707\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return x.T  # SL707\n" + BLOCK_CALL,
    ),
    good=(
        BLOCK_HEAD + "def f(x):\n    return x.squeeze(0).T[None]\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return jnp.squeeze(x, 0)[None]\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    y = x + 1\n    return y\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return x.T\n"
        "g = jax.jit(jax.shard_map(f, mesh=m, in_specs=P('i'), out_specs=P('i')))\ny = g(x)\n",
    ),
)
