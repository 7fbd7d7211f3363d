"""pmap gets another name: an alias, a partial, or a function around it.

This is a good place to start a migration: all functions that are mapped by the new name change
together with it.
"""

from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, MAPS, Level, Match, Rule
from shardlift.source.sites import Role, Site, scope_name


def visit(file: File) -> Iterator[Match]:
    """Every place where pmap is given another name."""
    for site in file.sites:
        if site.role is Role.WRAPPER:
            yield Match(site.node, _message(site))


def _message(site: Site) -> str:
    origin = site.transform.origin
    if site.mapped is None and site.targets:
        return f"`{site.targets[0]}` is another name for {origin}"
    function = scope_name(site.file, site.node).rpartition(".")[2]
    return f"`{function}()` wraps {origin}" if function else f"a wrapper of {origin}"


RULE = Rule(
    code="SL202",
    level=Level.NOTE,
    summary="pmap gets another name",
    advice="Start here: functions that are mapped by this name change with it.",
    reference=f"{GUIDE}#migrating-to-jax-shard-map",
    words=("pmap", "Parallel"),
    bad=(
        "import functools, jax\npmap = functools.partial(jax.pmap, axis_name='i')  # SL202",
        "import jax\ndef parallel(f):\n    return jax.pmap(f)  # SL202",
        "import jax\ntransform = jax.pmap if n > 1 else jax.jit  # SL202",
    ),
    good=(
        "import jax\nstep = jax.pmap(f)",
        "import jax\ndef make(f):\n    step = jax.pmap(f)\n    return 1",
        "from jax import pmap",
        "import jax\ndef build():\n    return jax.pmap(f)",
    ),
    rewritten_as=MAPS,
)
