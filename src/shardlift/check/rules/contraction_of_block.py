"""A dot, matmul or einsum in a shard_map body that was written for pmap.

The block has one axis more than pmap gave: `einsum` with letters for the old rank raises, `dot`
contracts other axes, and a matrix that was a vector changes the rank of everything after it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.check.pmap_bodies import HEAD, RUN, block_calls, is_block, pmap_bodies
from shardlift.source.file import File
from shardlift.source.model import GUIDE, Effect, Match, Rule

_NAMES = (
    "dot",
    "vdot",
    "inner",
    "outer",
    "matmul",
    "einsum",
    "tensordot",
    "kron",
    "cross",
)
_FUNCTIONS = frozenset(f"jax.numpy.{name}" for name in _NAMES) | {"jax.lax.dot"}


def visit(file: File) -> Iterator[Match]:
    """A product that has the block itself as an operand."""
    for call, name, block in block_calls(file, _FUNCTIONS, frozenset({"dot"})):
        yield Match(call, f"{name} of `{block}`, which has one axis more than under pmap")
    for body, names in pmap_bodies(file):
        for node in file.index.within(body, ast.BinOp):
            if isinstance(node.op, ast.MatMult):
                for side in (node.left, node.right):
                    if is_block(file, side, body, names):
                        text = (
                            f"@ with `{file.text(side)}`, which has one axis more than under pmap"
                        )
                        yield Match(node, text)
                        break


RULE = Rule(
    code="SL706",
    name="contraction-of-block",
    effect=Effect.WRONG,
    summary="dot, matmul or einsum of a block that keeps the device axis",
    advice="Take the axis off first: jnp.dot(x.squeeze(0), w); and put it back on the result.",
    explain=__doc__,
    reference=f"{GUIDE}#update-your-mapped-function",
    visit=visit,
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        HEAD + "def f(x):\n    return jnp.einsum('a,ab->b', x, w)  # SL706\n" + RUN,
        HEAD + "def f(x):\n    return w @ x  # SL706\n" + RUN,
    ),
    good=(
        HEAD + "def f(x):\n    return jnp.dot(x.squeeze(0), w)[None]\n" + RUN,
        HEAD + "def f(x):\n    return jnp.dot(x[0], w)[None]\n" + RUN,
        HEAD + "def f(x):\n    return x * w\n" + RUN,
        HEAD + "def f(x):\n    return x @ w\np = jax.pmap(f)\n",
        HEAD + "def f(x):\n    return x @ w\n"
        "g = jax.jit(jax.shard_map(f, mesh=m, in_specs=P('i'), out_specs=P('i')))\ny = g(x)\n",
    ),
)
