"""pmap itself is passed as a value, and cannot be followed from there.

shardlift does not find the functions that the receiver maps with it, and does not rewrite them.
"""

from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Kind, Level, Match, Rule
from shardlift.source.sites import Role


def visit(file: File) -> Iterator[Match]:
    """Every mention of pmap that neither applies it nor gives it another name."""
    for site in file.sites:
        if site.role is Role.REFERENCE:
            yield Match(site.node, f"{site.transform.origin} is passed as a value")


RULE = Rule(
    code="SL203",
    level=Level.NOTE,
    summary="pmap is passed as a value",
    advice="Check the receiver: the functions that it maps are not reported.",
    reference=f"{GUIDE}#migrating-to-jax-shard-map",
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
    rewritten_as=frozenset({Kind.VALUE}),
)
