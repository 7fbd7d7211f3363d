"""A batch is reshaped to `(devices, batch // devices, …)` so that pmap can map over it.

Only pmap needs this axis. In `jax.shard_map`, `P('axis')` splits the batch without it, and a body
that was written for pmap gets blocks of another rank (SL705 to SL708).
"""

import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import innermost_expression, mapped_inputs, stacking_count
from shardlift.source.model import GUIDE, Level, Match, Rule


def visit(file: File) -> Iterator[Match]:
    """Reshapes by the device count whose result is passed to pmap, and flax's `shard`."""
    for made in mapped_inputs(file):
        where, inner = innermost_expression(file, made)
        reshaped = "reshape" in where.text(inner) and where.called(inner) != "jax.random.split"
        if reshaped and stacking_count(where, inner) is not None:
            yield Match(made, "a reshape adds a device axis for pmap")
    for call in file.calls_of("flax.training.common_utils.shard"):
        yield Match(call, "shard() adds a device axis for pmap")


RULE = Rule(
    code="SL304",
    level=Level.NOTE,
    summary="a batch gets a leading device axis",
    advice="With shard_map, keep the batch flat: P('axis') splits its first axis.",
    reference=f"{GUIDE}#input-data-preparation",
    words=("pmap", "common_utils"),
    pattern=re.compile(rb"pmap|\bshard\b"),
    bad=(
        "import jax\nstep = jax.pmap(f)\nn = jax.local_device_count()\n"
        "batch = batch.reshape((n, -1) + batch.shape[1:])  # SL304\ny = step(batch)",
        "from flax.training import common_utils\nbatch = common_utils.shard(batch)  # SL304",
        "import jax\nstep = jax.pmap(f)\nn = jax.local_device_count()\ndef shard(x):\n"
        "    return x.reshape((n, -1) + x.shape[1:])\n"
        "y = step(jax.tree.map(shard, batch))  # SL304\nz = step(shard(other))  # SL304",
    ),
    good=(
        "import jax\nstep = jax.pmap(f)\ny = step(batch.reshape((8, -1)))",
        "import jax\nstep = jax.pmap(f)\nkeys = jax.random.split(key, jax.device_count())\n"
        "y = step(keys)",
        "import jax\nstep = jax.pmap(f)\ny = step(batch)",
        "import jax\nstep = jax.pmap(f)\ndef flat(x):\n    return x.reshape((-1,))\n"
        "y = step(jax.tree.map(flat, batch))",
    ),
)
