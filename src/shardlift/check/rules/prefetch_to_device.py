"""flax's `prefetch_to_device` places batches in pmap's layout, one slice per device.

A jitted shard_map needs a global array: after a migration, place batches with the sharding of the
step, by `jax.device_put` or `jax.make_array_from_process_local_data`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Effect, Match, Migrated, Rule


def visit(file: File) -> Iterator[Match]:
    """Every call of the helper."""
    for call in file.index.nodes(ast.Call):
        if file.called(call) == "flax.jax_utils.prefetch_to_device":
            yield Match(call, "batches get one slice per device, which only pmap accepts")


RULE = Rule(
    code="SL302",
    name="prefetch-to-device",
    effect=Effect.OLD,
    summary="flax's prefetch_to_device places batches for pmap only",
    advice="Place each batch with the sharding of the step, a few steps ahead.",
    explain=__doc__,
    reference=f"{GUIDE}#input-data-preparation",
    visit=visit,
    words=("jax_utils",),
    bad=(
        "from flax import jax_utils\nit = jax_utils.prefetch_to_device(it, 2)  # SL302",
        "from flax.jax_utils import prefetch_to_device\nit = prefetch_to_device(it, 2)  # SL302",
    ),
    good=(
        "from mylib import prefetch_to_device\nit = prefetch_to_device(it, 2)",
        "def prefetch_to_device(it):\n    return it\nx = prefetch_to_device(it)",
        "from flax import jax_utils\nstate = jax_utils.unreplicate(state)",
        "it = dataset.prefetch(2)",
    ),
    migrated=Migrated.BY_STEP,
)
