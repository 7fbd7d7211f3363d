"""A value is copied once for each device along a new leading axis, the way pmap wants replicas.

JAX sees an array that is sharded, not one that is replicated: every later `x[0]` is a gather.
`in_axes=None` under pmap, or `P()` under shard_map, keeps one logical value instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import TREE_MAPS, stacked_by
from shardlift.source.model import GUIDE, Effect, Match, Migrated, Rule

_STACKS = frozenset({"jax.numpy.stack", "jax.numpy.array", "jax.numpy.broadcast_to"})


def visit(file: File) -> Iterator[Match]:
    """Values repeated by the number of devices and given to pmap."""
    seen: set[ast.expr] = set()
    for call, _ in file.mapped_calls:
        for argument in call.args:
            made = file.definition(argument)
            if made not in seen and _repeats(file, made) and stacked_by(file, made) is not None:
                seen.add(made)
                yield Match(made, "one copy a device is stacked by hand for pmap")


def _repeats(file: File, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if file.called(node) in TREE_MAPS and isinstance(node.args[0], ast.Lambda):
        return _repeats(file, node.args[0].body)
    return file.called(node) in _STACKS


RULE = Rule(
    code="SL301",
    name="stacked-replicas",
    effect=Effect.SLOW,
    summary="a value is stacked once for each device",
    advice="Pass it once: in_axes=None with pmap, P() with shard_map.",
    explain=__doc__,
    reference=f"{GUIDE}#option-1-prevent-unintended-sharding-recommended",
    visit=visit,
    words=("pmap",),
    bad=(
        "import jax\nimport jax.numpy as jnp\nn = jax.local_device_count()\n"
        "p = jax.tree.map(lambda x: jnp.stack([x] * n), p)  # SL301\ny = jax.pmap(f)(p)",
    ),
    good=(
        "import jax\nstate = jax.device_put(state, sharding)",
        "from mylib import replicate\nstate = replicate(state)",
        "import jax\nimport jax.numpy as jnp\ny = jax.pmap(f)(jnp.stack([x] * 4))",
        "import jax\nimport jax.numpy as jnp\nn = jax.device_count()\nx = jnp.stack([x] * n)",
        "import jax\nimport jax.numpy as jnp\nn = jax.device_count()\nx = jnp.stack([x, n])",
        "from flax import jax_utils\nstate = jax_utils.replicate(state)",
    ),
    migrated=Migrated.BY_STEP,
)
