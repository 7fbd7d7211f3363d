"""Keywords of jax.pmap that it no longer takes, or takes in another way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import CHANGELOG, GUIDE, Level, Match, Rule
from shardlift.source.sites import pmap_keywords


def _removed_pmap_keyword(file: File) -> Iterator[Match]:
    """The keyword, where it is written: at the site, or in the wrapper that fills it in."""
    for name, node in pmap_keywords(file, "global_arg_shapes"):
        yield Match(node, f"jax.pmap has no keyword {name} any more: it raises")


def _negative_axis(file: File) -> Iterator[Match]:
    """Negative numbers in the axes of jax.pmap, at the site or in the wrapper that has them."""
    for name, node in pmap_keywords(file, "in_axes", "out_axes"):
        if _is_negative(node):
            yield Match(node, f"a negative {name} of jax.pmap means another axis")


def _is_negative(axes: ast.expr) -> bool:
    numbers = axes.elts if isinstance(axes, ast.Tuple | ast.List) else [axes]
    return any(
        isinstance(number, ast.UnaryOp)
        and isinstance(number.op, ast.USub)
        and isinstance(number.operand, ast.Constant)
        for number in numbers
    )


RULES = (
    Rule(
        code="SL112",
        level=Level.BROKEN,
        summary="a keyword that jax.pmap no longer takes",
        advice="Take it out.",
        reference=CHANGELOG,
        words=("global_arg_shapes",),
        since=(0, 10),
        visit=_removed_pmap_keyword,
    ),
    Rule(
        code="SL207",
        level=Level.BROKEN,
        summary="in_axes or out_axes of pmap count from the end",
        advice="Count the axis from the front: out_axes=2 if each device returns a matrix.",
        reference=f"{GUIDE}#migrating-to-jax-shard-map",
        words=("pmap",),
        pattern=re.compile(rb"(in|out)_axes"),
        since=(0, 8),
        visit=_negative_axis,
    ),
)
