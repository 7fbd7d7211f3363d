"""A dot, matmul or einsum in a shard_map body that was written for pmap.

The block has one axis more than under pmap. `einsum` with letters for the old rank raises an
error, `dot` contracts other axes, and a vector that became a matrix changes the rank of all later
results.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.check.pmap_bodies import block_calls, is_block, pmap_bodies
from shardlift.check.rules._examples import BLOCK_CALL, BLOCK_HEAD
from shardlift.source.file import File
from shardlift.source.model import GUIDE, Level, Match, Rule

_NAMES = ("dot", "vdot", "inner", "outer", "matmul", "einsum", "tensordot", "kron", "cross")
_FUNCTIONS = frozenset(f"jax.numpy.{name}" for name in _NAMES) | {"jax.lax.dot"}


def visit(file: File) -> Iterator[Match]:
    """Products that have the block itself as an operand."""
    for call, name, block in block_calls(file, _FUNCTIONS, frozenset({"dot"})):
        yield Match(call, f"{name} of `{block}`, which has one axis more than under pmap")
    for body, names in pmap_bodies(file):
        for node in file.index.within(body, ast.BinOp):
            if isinstance(node.op, ast.MatMult):
                for side in (node.left, node.right):
                    if is_block(file, side, body, names):
                        block = file.text(side)
                        text = f"@ with `{block}`, which has one axis more than under pmap"
                        yield Match(node, text)
                        break


RULE = Rule(
    code="SL706",
    name="contraction-of-block",
    level=Level.BROKEN,
    summary="dot, matmul or einsum of a block that keeps the device axis",
    advice="Remove the axis first, as in jnp.dot(x.squeeze(0), w), and add it to the result.",
    explain=__doc__,
    reference=f"{GUIDE}#update-your-mapped-function",
    visit=visit,
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        BLOCK_HEAD + "def f(x):\n    return jnp.einsum('a,ab->b', x, w)  # SL706\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return w @ x  # SL706\n" + BLOCK_CALL,
    ),
    good=(
        BLOCK_HEAD + "def f(x):\n    return jnp.dot(x.squeeze(0), w)[None]\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return jnp.dot(x[0], w)[None]\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return x * w\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return x @ w\np = jax.pmap(f)\n",
        BLOCK_HEAD + "def f(x):\n    return x @ w\n"
        "g = jax.jit(jax.shard_map(f, mesh=m, in_specs=P('i'), out_specs=P('i')))\ny = g(x)\n",
    ),
)
