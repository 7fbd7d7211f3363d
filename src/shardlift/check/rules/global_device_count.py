"""An input of pmap has one row for each device of the job, not of this process.

A pmapped function takes host-local arrays: each process passes as many rows as it has devices.
`jax.device_count()` counts all processes, so it is right only if there is one.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import device_count, stacking_count
from shardlift.source.model import MULTI_PROCESS, Match, Rule


def visit(file: File) -> Iterator[Match]:
    """Inputs of pmapped functions that are reshaped, split or stacked by the global count."""
    if not file.many_processes:
        return
    seen: set[ast.expr] = set()
    for call, mapped in file.mapped_calls:
        if "devices" in mapped.keywords:
            continue
        for argument in call.args:
            count = stacking_count(file, argument)
            if count is not None and count not in seen and device_count(file, count) == "global":
                seen.add(count)
                yield Match(count, "pmap needs one row per local device, not per device of the job")


RULE = Rule(
    code="SL604",
    summary="a leading axis of all devices in a program of many processes",
    advice="Use jax.local_device_count().",
    reference=MULTI_PROCESS,
    words=("pmap",),
    bad=(
        "import jax\nme = jax.process_index()\np = jax.pmap(f)\n"
        "keys = jax.random.split(key, jax.device_count())  # SL604\ny = p(keys)",
        "import jax\nme = jax.process_index()\np = jax.pmap(f)\n"
        "y = p(x.reshape((len(jax.devices()), -1)))  # SL604",
    ),
    good=(
        "import jax\nme = jax.process_index()\np = jax.pmap(f)\n"
        "keys = jax.random.split(key, jax.local_device_count())\ny = p(keys)",
        "import jax\np = jax.pmap(f)\nkeys = jax.random.split(key, jax.device_count())\n"
        "y = p(keys)",
        "import jax\nme = jax.process_index()\np = jax.pmap(f)\n"
        "key = jax.random.split(key, jax.device_count())[me]\ny = p(key)",
    ),
)
