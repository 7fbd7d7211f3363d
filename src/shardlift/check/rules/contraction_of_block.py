"""A dot, matmul or einsum in a shard_map body that was written for pmap.

The block has one axis more than under pmap. `einsum` with letters for the old rank raises an
error, `dot` contracts other axes, and a vector that became a matrix changes the rank of all later
results.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.check.pmap_bodies import block_uses
from shardlift.check.rules._examples import BLOCK_CALL, BLOCK_HEAD
from shardlift.source.file import File
from shardlift.source.model import GUIDE, Level, Match, Rule

_NAMES = ("dot", "vdot", "inner", "outer", "matmul", "einsum", "tensordot", "kron", "cross")
_FUNCTIONS = frozenset(f"jax.numpy.{name}" for name in _NAMES) | {"jax.lax.dot"}


def visit(file: File) -> Iterator[Match]:
    """Products that have the block itself as an operand."""
    for use, name, (block, *_) in block_uses(file):
        more = f"`{block.id}`, which has one axis more than under pmap"
        if name in _FUNCTIONS or (name == "dot" and isinstance(use, ast.Call)):
            yield Match(use, f"{name.rpartition('.')[2]} of {more}")
        elif isinstance(use, ast.BinOp) and isinstance(use.op, ast.MatMult):
            yield Match(use, f"@ with {more}")


RULE = Rule(
    code="SL706",
    level=Level.BROKEN,
    summary="dot, matmul or einsum of a block that keeps the device axis",
    advice="Remove the axis first, as in jnp.dot(x.squeeze(0), w), and add it to the result.",
    reference=f"{GUIDE}#update-your-mapped-function",
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        BLOCK_HEAD + "def f(x):\n    return jnp.einsum('a,ab->b', x, w)  # SL706\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return w @ x  # SL706\n" + BLOCK_CALL,
    ),
    good=(
        BLOCK_HEAD + "def f(x):\n    return jnp.dot(x.squeeze(0), w)[None]\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return jnp.dot(x[0], w)[None]\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return x * w\n" + BLOCK_CALL,
    ),
)
