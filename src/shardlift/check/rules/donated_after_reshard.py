"""A donated argument arrives on one device and is spread out, so it is copied before it is freed.

Donation is free when the input already lies as the pmapped function wants it. Otherwise it is
copied first and deleted after: for a moment the memory is needed twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import stacked_by
from shardlift.source.model import GUIDE, Effect, Match, Rule
from shardlift.source.values import Constant, Mapped


def visit(file: File) -> Iterator[Match]:
    """A donated position that is given an array stacked or reshaped on the spot."""
    for call, mapped in file.mapped_calls:
        for place in donated(mapped):
            if place < len(call.args) and stacked_by(file, call.args[place]) is not None:
                argument = call.args[place]
                yield Match(
                    argument, f"argument {place} is donated, but has to be spread out first"
                )


def donated(mapped: Mapped) -> tuple[int, ...]:
    """The positions that a pmapped function donates, where they are written out."""
    located = mapped.keywords.get("donate_argnums")
    if located is None:
        return ()
    node = located.file.definition(located.node)
    elements = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    values = [located.file.only(element) for element in elements]
    return tuple(v.value for v in values if isinstance(v, Constant) and isinstance(v.value, int))


RULE = Rule(
    code="SL305",
    name="donated-after-reshard",
    effect=Effect.SLOW,
    summary="a donated input is resharded first, which takes twice the memory",
    advice="Place it once, before the loop, with the sharding of the step.",
    explain=__doc__,
    reference=f"{GUIDE}#buffer-donation-with-donate-argnums",
    visit=visit,
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
        "import jax\nstep = jax.pmap(f, donate_argnums=0)\n"
        "y = step(state, b.reshape((jax.device_count(), -1)))",
        "import jax\nstep = jax.jit(f, donate_argnums=0)\ny = step(b.reshape((8, -1)))",
        "import jax\nstep = jax.pmap(f, donate_argnums=0)\nstate = init(x)\n"
        "for x in xs:\n    state = step(state, x)",
    ),
    since=(0, 8),
)
