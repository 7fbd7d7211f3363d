"""Which calls make stacked arrays or read a row of them, so that a rewrite can undo it."""

import ast

import pytest

from shardlift.rewrite.device_axis.cells import CellRole
from shardlift.rewrite.device_axis.stacked_arrays import idiom
from shardlift.source.project import Project
from shardlift.source.text import Source

HEAD = """\
import functools
import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils
from flax.training import common_utils
n = jax.local_device_count()
def shard(xs): return jax.tree.map(lambda x: x.reshape((n, -1) + x.shape[1:]), xs)
def first(tree): return jax.tree.map(lambda x: x[0], tree)
def noisy(tree):
    print(tree)
    return jax.tree.map(lambda x: x[0], tree)
@functools.cache
def cached(tree): return jax.tree.map(lambda x: x[0], tree)
def replicate(tree):
    return jax.device_put_replicated(tree, jax.local_devices())
def counted(tree):
    count = jax.local_device_count()
    return jnp.stack([tree] * count)
def place_arrays(x):
    if isinstance(x, jax.Array):
        return jnp.stack([x] * n)
def split(x): return x.reshape((n, -1) + x.shape[1:])
@functools.cache
def split_once(x): return x.reshape((n, -1) + x.shape[1:])
"""


def found(text: str) -> tuple[CellRole, str] | None:
    """The role of the last call of a text, and the tree that it is given."""
    file = Project.of(Source("m.py", f"{HEAD}{text}\n")).file("m.py")
    statement = file.index.root.body[-1]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    result = idiom(file, statement.value)
    return (result.role, ast.unparse(result.tree)) if result is not None else None


CALLS: dict[CellRole | None, list[str]] = {
    CellRole.REPLICATE: [
        "jax_utils.replicate(T)",
        "jax_utils.replicate(T, jax.devices())",
        "jax.device_put_replicated(T, jax.local_devices())",
        "replicate(T)",
        "counted(T)",
        "jnp.stack([T] * n)",
        "jnp.stack(n * [T])",
        "jnp.broadcast_to(T, (n,) + T.shape)",
        "jnp.broadcast_to(T, (n, *T.shape))",
    ],
    CellRole.SHARD: [
        "common_utils.shard(T)",
        "shard(T)",
        "jax.tree.map(split, T)",
        "jax.tree.map(common_utils.shard, T)",
        "T.reshape((n, -1) + T.shape[1:])",
        "T.reshape(n, -1, *T.shape[1:])",
        "T.reshape((n, T.shape[0] // n, *T.shape[1:]))",
        "jnp.reshape(T, (n, -1) + tuple(T.shape[1:]))",
        "T.reshape([n, T.shape[0] // n] + list(T.shape[1:]))",
        "T.reshape([n, -1, *T.shape[1:]])",
    ],
    CellRole.ROWS: [
        "jax.random.split(T, n)",
        "jax.random.split(T, num=n)",
        "common_utils.shard_prng_key(T)",
        "jax.device_put_sharded(T, jax.local_devices())",
    ],
    CellRole.FIRST: ["jax_utils.unreplicate(T)", "jax.tree.map(lambda x: x[0], T)", "first(T)"],
    None: [
        "jax_utils.replicate(T, devices=some)",
        "noisy(T)",
        "cached(T)",
        "jax.tree.map(split_once, T)",
        "jax.tree.map(lambda x: x[1], T)",
        "jax.tree.map(lambda x: x[0], T, U)",
        "jax.random.split(T, 4)",
        "jax.random.split(T)",
        "T.reshape((n, -1))",
        "T.reshape((n, -1) + U.shape[1:])",
        "T.reshape((n, U.shape[0] // n, *T.shape[1:]))",
        "T.reshape((n, T.shape[0] // 2, *T.shape[1:]))",
        "T.reshape((4, -1) + T.shape[1:])",
        "jnp.stack([T, U] * n)",
        "jnp.stack([T] * n, axis=1)",
        "jnp.broadcast_to(T, (n, 3))",
        "unknown(T)",
        "jax.tree.map(place_arrays, T)",
        "jax.device_put_replicated(T, jax.local_devices()[:2])",
        "np.stack([T] * n)",  # what has a weak type gets one
        "jnp.array([T] * n)",
        "np.broadcast_to(T, (n, *T.shape))",
    ],
}


@pytest.mark.parametrize(
    ("role", "text"), [(role, text) for role, texts in CALLS.items() for text in texts]
)
def test_what_a_call_does_with_the_device_axis(role: CellRole | None, text: str) -> None:
    assert found(text) == ((role, "T") if role is not None else None)
