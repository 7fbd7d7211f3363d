"""pmap itself is handed to something as a value, and cannot be followed from there.

What the receiver maps with it is not found by this tool and will not be rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Effect, Match, Migrated, Rule
from shardlift.source.sites import Role


def visit(file: File) -> Iterator[Match]:
    """Every bare mention of pmap that is neither a call nor a name for it."""
    for site in file.sites:
        if site.role is Role.REFERENCE:
            yield Match(site.node, f"{site.transform.origin} is passed on as a value")


RULE = Rule(
    code="SL203",
    name="pmap-as-value",
    effect=Effect.OLD,
    summary="pmap is handed over as a value",
    advice="Look where it goes: what it maps there is not in this list.",
    explain=__doc__,
    reference=f"{GUIDE}#migrating-to-jax-shard-map",
    visit=visit,
    words=("pmap", "Parallel"),
    bad=(
        "import jax\ntrain(transform=jax.pmap)  # SL203",
        "import jax\ntable = {'pmap': jax.pmap, 'jit': jax.jit}  # SL203",
    ),
    good=(
        "import jax\nstep = jax.pmap(f)",
        "import jax\nif transform is jax.pmap:\n    pass",
        "import jax\ntext = jax.pmap.__doc__",
        "import functools, jax\npmap = functools.partial(jax.pmap, axis_name='i')",
    ),
    migrated=Migrated.BY_STEP,
)
