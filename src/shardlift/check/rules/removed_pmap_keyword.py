"""A keyword that `jax.pmap` no longer takes: `global_arg_shapes` raises since JAX 0.10."""

from __future__ import annotations

from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import CHANGELOG, Level, Match, Rule
from shardlift.source.sites import Role

_GONE = ("global_arg_shapes",)


def visit(file: File) -> Iterator[Match]:
    """The keyword, where it is written: at the site, or in the wrapper that fills it in."""
    for site in file.sites:
        if site.role is Role.REFERENCE or site.transform.origin != "jax.pmap":
            continue
        for name in _GONE:
            located = site.keywords.get(name)
            if located is not None and located.file is file:
                yield Match(located.node, f"jax.pmap has no keyword {name} any more: it raises")


RULE = Rule(
    code="SL112",
    name="removed-pmap-keyword",
    level=Level.BROKEN,
    summary="a keyword that jax.pmap no longer takes",
    advice="Take it out.",
    explain=__doc__,
    reference=CHANGELOG,
    visit=visit,
    words=("global_arg_shapes",),
    bad=(
        "import jax\ng = jax.pmap(f, global_arg_shapes=shapes)  # SL112",
        "import functools, jax\npmap = functools.partial(jax.pmap, global_arg_shapes=s)  # SL112",
    ),
    good=(
        "import jax\ng = jax.pmap(f, axis_name='i')",
        "import jax\ng = jax.pmap(f, axis_size=4)",
        "from mylib import pmap\ng = pmap(f, global_arg_shapes=shapes)",
        "global_arg_shapes = 1",
    ),
    since=(0, 10),
)
