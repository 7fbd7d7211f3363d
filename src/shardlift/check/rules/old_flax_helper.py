"""A helper of flax for pmap that raises with the JAX that the project allows.

`replicate` and `prefetch_to_device` call functions that JAX 0.10 removed, up to flax 0.12.6;
`unreplicate` and `get_metrics` ask for an option that it removed, in flax 0.12.3 and 0.12.4. With
a newer flax, which JAX 0.11 and later need anyway, they work and are left alone.
"""

import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.flax_helpers import Fitness, fitness
from shardlift.source.model import GUIDE, Kind, Match, Rule, dotted


def visit(file: File) -> Iterator[Match]:
    """Every call of such a helper."""
    settings = file.project.settings
    jax, flax = dotted(settings.target), dotted(settings.usable_flax)
    for name, calls in file.library_calls.items():
        if name.startswith("flax.") and fitness(name, settings) is Fitness.RAISES:
            for call in calls:
                yield Match(call, f"{name} of flax {flax} raises with JAX {jax}")


RULE = Rule(
    code="SL302",
    summary="a helper of an old flax that raises since JAX 0.10",
    advice="Require flax>=0.12.7, with which it works.",
    reference=f"{GUIDE}#input-data-preparation",
    words=("jax_utils", "common_utils"),
    pattern=re.compile(rb"replicate|prefetch_to_device|get_metrics"),
    bad=(
        "from flax import jax_utils\nit = jax_utils.prefetch_to_device(it, 2)  # SL302",
        "from flax.jax_utils import replicate\nstate = replicate(state)  # SL302",
        "from flax import jax_utils\nstate = jax_utils.unreplicate(state)  # SL302",
    ),
    good=(
        "from mylib import prefetch_to_device\nit = prefetch_to_device(it, 2)",
        "def prefetch_to_device(it):\n    return it\nx = prefetch_to_device(it)",
        "from flax.training import common_utils\nbatch = common_utils.shard(batch)",
        "it = dataset.prefetch(2)",
    ),
    since=(0, 10),
    before_flax=(0, 12, 7),
    holds_for=((0, 10, 2), (0, 12, 4)),
    rewritten_as=frozenset({Kind.PLACEMENT}),
)
