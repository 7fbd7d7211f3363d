"""A value is copied once for each device along a new leading axis, the way pmap wants replicas.

JAX sees an array that is sharded, not one that is replicated: every later `x[0]` is a gather.
`in_axes=None` under pmap, or `P()` under shard_map, keeps one logical value instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.codemod.file import File
from shardlift.codemod.finding import GUIDE, Effect, Match, Rule
from shardlift.codemod.idioms import TREE_MAPS, stacked_by

_STACKS = frozenset({"jax.numpy.stack", "jax.numpy.array", "jax.numpy.broadcast_to"})


def visit(file: File) -> Iterator[Match]:
    """flax's `replicate`, and the home-made ones that repeat a value by the number of devices."""
    for call in file.index.nodes(ast.Call):
        name = file.called(call)
        if name == "flax.jax_utils.replicate":
            yield Match(call, "a copy for each device along a new leading axis, sharded")
        elif name in _STACKS and stacked_by(file, call) is not None:
            yield Match(call, "one copy a device is stacked by hand: JAX sees a sharded array")
        elif name in TREE_MAPS and call.args and isinstance(call.args[0], ast.Lambda):
            body = call.args[0].body
            if file.called(body) == "flax.jax_utils.replicate":
                yield Match(call, "a copy for each device along a new leading axis, sharded")


RULE = Rule(
    code="SL301",
    name="stacked-replicas",
    effect=Effect.SLOW,
    summary="a value is stacked once for each device",
    advice="Pass it once: in_axes=None with pmap, P() with shard_map.",
    explain=__doc__,
    reference=f"{GUIDE}#option-1-prevent-unintended-sharding-recommended",
    visit=visit,
    words=("jax_utils", "local_device_count", "pmap"),
    bad=(
        "from flax import jax_utils\nstate = jax_utils.replicate(state)  # SL301",
        "from flax.jax_utils import replicate\np = replicate(params)  # SL301",
        "import jax\nimport jax.numpy as jnp\nn = jax.local_device_count()\n"
        "p = jax.tree.map(lambda x: jnp.stack([x] * n), p)  # SL301",
    ),
    good=(
        "import jax\nstate = jax.device_put(state, sharding)",
        "from mylib import replicate\nstate = replicate(state)",
        "import jax.numpy as jnp\nx = jnp.stack([x] * 4)",
        "import jax\nimport jax.numpy as jnp\nn = jax.device_count()\nx = jnp.stack([x, n])",
        "from flax import jax_utils\nstate = jax_utils.unreplicate(state)",
    ),
)
