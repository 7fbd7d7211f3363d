"""A value is copied once per device along a new leading axis, as replicas for pmap.

For JAX this array is sharded and not replicated, so every later `x[0]` is a gather. With
`in_axes=None` in pmap, or `P()` in shard_map, there is one logical value instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import stacking_count
from shardlift.source.libraries import TREE_MAPS
from shardlift.source.model import GUIDE, Level, Match, Rule

_STACKS = frozenset({"jax.numpy.stack", "jax.numpy.array", "jax.numpy.broadcast_to"})


def visit(file: File) -> Iterator[Match]:
    """Inputs of pmap that are repeated by the number of devices."""
    seen: set[ast.expr] = set()
    for call, _ in file.mapped_calls:
        for argument in call.args:
            made = file.definition(argument)
            if made not in seen and _repeats(file, made) and stacking_count(file, made) is not None:
                seen.add(made)
                yield Match(made, "one copy per device is stacked along a new axis for pmap")


def _repeats(file: File, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if file.called(node) in TREE_MAPS and isinstance(node.args[0], ast.Lambda):
        return _repeats(file, node.args[0].body)
    return file.called(node) in _STACKS


RULE = Rule(
    code="SL301",
    name="stacked-replicas",
    level=Level.SLOW,
    summary="a value is stacked once per device",
    advice="Pass it once, with in_axes=None in pmap or P() in shard_map.",
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
)
