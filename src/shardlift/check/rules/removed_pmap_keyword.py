"""A keyword that `jax.pmap` no longer takes: `global_arg_shapes` raises since JAX 0.10."""

from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import CHANGELOG, Match, Rule
from shardlift.source.sites import pmap_keywords


def visit(file: File) -> Iterator[Match]:
    """The keyword, where it is written: at the site, or in the wrapper that fills it in."""
    for name, node in pmap_keywords(file, "global_arg_shapes"):
        yield Match(node, f"jax.pmap has no keyword {name} any more: it raises")


RULE = Rule(
    code="SL112",
    summary="a keyword that jax.pmap no longer takes",
    advice="Take it out.",
    reference=CHANGELOG,
    words=("global_arg_shapes",),
    bad=(
        "import jax\ng = jax.pmap(f, global_arg_shapes=shapes)  # SL112",
        "import functools, jax\npmap = functools.partial(jax.pmap, global_arg_shapes=s)  # SL112",
    ),
    good=(
        "import jax\ng = jax.pmap(f, axis_size=4)",
        "from mylib import pmap\ng = pmap(f, global_arg_shapes=shapes)",
        "global_arg_shapes = 1",
    ),
    since=(0, 10),
)
