"""A donated argument is not yet on its devices, so it is copied before it is freed.

Donation costs nothing if the input already has the sharding of the pmapped function. Otherwise it
is copied first and deleted afterwards, which needs the memory twice for a moment.
"""

from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import literals, stacking_count
from shardlift.source.model import GUIDE, Level, Match, Rule
from shardlift.source.values import Mapped


def visit(file: File) -> Iterator[Match]:
    """Donated arguments that are stacked or reshaped in the call."""
    for call, mapped in file.mapped_calls:
        for place in donated(mapped):
            if place < len(call.args) and stacking_count(file, call.args[place]) is not None:
                text = f"argument {place} is donated, but must be resharded first"
                yield Match(call.args[place], text)


def donated(mapped: Mapped) -> tuple[int, ...]:
    """The positions that a pmapped function donates, as far as they are literals."""
    located = mapped.keywords.get("donate_argnums")
    places = literals(located.file, located.node) if located is not None else []
    return tuple(place for place in places if isinstance(place, int))


RULE = Rule(
    code="SL305",
    level=Level.SLOW,
    summary="a donated input is resharded first, which needs twice the memory",
    advice="Place it once before the loop, with the sharding of the step.",
    reference=f"{GUIDE}#buffer-donation-with-donate-argnums",
    words=("pmap",),
    bad=(
        "import jax\nimport jax.numpy as jnp\nstep = jax.pmap(f, donate_argnums=(0,))\n"
        "n = jax.local_device_count()\nstate = step(jnp.stack([state] * n), x)  # SL305",
        "import jax\nstep = jax.pmap(f, donate_argnums=1)\n"
        "b = b.reshape((jax.device_count(), -1))\ny = step(state, b)  # SL305",
    ),
    good=(
        "import jax\nstep = jax.pmap(f, donate_argnums=(0,))\nstate = step(state, x)",
        "import jax\nstep = jax.pmap(f)\ny = step(b.reshape((jax.device_count(), -1)))",
        "import jax\nstep = jax.pmap(f, donate_argnums=0)\nstate = init(x)\n"
        "for x in xs:\n    state = step(state, x)",
    ),
    since=(0, 8),
)
