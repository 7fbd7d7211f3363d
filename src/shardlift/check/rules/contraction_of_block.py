"""A dot, matmul or einsum in a shard_map body that was written for pmap.

The block has one axis more than under pmap. `einsum` with letters for the old rank raises an
error, `dot` contracts other axes, and a vector that became a matrix changes the rank of all later
results. A body that only returns `jnp.dot(x, w)` or `x @ w`, with `x` its one block, is right: its
row is the row of pmap's output.
"""

import ast
from collections.abc import Iterator

from shardlift.check.pmap_bodies import block_uses
from shardlift.check.rules._examples import BLOCK_CALL, BLOCK_HEAD
from shardlift.source.file import File
from shardlift.source.model import GUIDE, Match, Rule

_NAMES = ("dot", "vdot", "inner", "outer", "matmul", "einsum", "tensordot", "kron", "cross")
_FUNCTIONS = frozenset(f"jax.numpy.{name}" for name in _NAMES) | {"jax.lax.dot"}
_ROW_FIRST = ("jax.numpy.dot", "jax.numpy.matmul")


def visit(file: File) -> Iterator[Match]:
    """Products that have the block itself as an operand."""
    for use, name, blocks in block_uses(file):
        block, *others = blocks
        if not others and _is_returned_row(file, use, name, block):
            continue
        more = f"`{block.id}`, which has one axis more than under pmap"
        if name in _FUNCTIONS or (name == "dot" and isinstance(use, ast.Call)):
            yield Match(use, f"{name.rpartition('.')[2]} of {more}")
        elif isinstance(use, ast.BinOp) and isinstance(use.op, ast.MatMult):
            yield Match(use, f"@ with {more}")


def _is_returned_row(file: File, use: ast.AST, name: str, block: ast.Name) -> bool:
    if not isinstance(file.index.parents[use], ast.Return | ast.Lambda):
        return False
    if isinstance(use, ast.BinOp):
        return use.left is block
    return name in _ROW_FIRST and isinstance(use, ast.Call) and use.args[:1] == [block]


RULE = Rule(
    code="SL706",
    summary="dot, matmul or einsum of a block that keeps the device axis",
    advice="Remove the axis first, as in jnp.dot(x.squeeze(0), w), and add it to the result.",
    reference=f"{GUIDE}#update-your-mapped-function",
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        BLOCK_HEAD + "def f(x):\n    return jnp.einsum('a,ab->b', x, w)  # SL706\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return w @ x  # SL706\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return jnp.dot(x, w).sum()  # SL706\n" + BLOCK_CALL,
    ),
    good=(
        BLOCK_HEAD + "def f(x):\n    return jnp.dot(x.squeeze(0), w)[None]\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return jnp.dot(x[0], w)[None]\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return jnp.matmul(x, w)\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return x @ w\n" + BLOCK_CALL,
        BLOCK_HEAD + "def f(x):\n    return x * w\n" + BLOCK_CALL,
    ),
)
