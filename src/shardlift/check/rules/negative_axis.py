"""`in_axes` or `out_axes` of pmap count an axis from the end.

Since JAX 0.8 a negative `out_axes` stacks the outputs along another axis than the one that was
asked for, without an error, and a negative `in_axes` raises or splits another axis. Measured on
JAX 0.10.2 and 0.12: with 4 devices and rows of shape (2, 3), `out_axes=-1` gives (8, 3, 1) instead
of (2, 3, 4).
"""

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Match, Rule
from shardlift.source.sites import pmap_keywords


def visit(file: File) -> Iterator[Match]:
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


RULE = Rule(
    code="SL207",
    summary="in_axes or out_axes of pmap count from the end",
    advice="Count the axis from the front, the device axis included: 2 for the last of three.",
    reference=f"{GUIDE}#migrating-to-jax-shard-map",
    words=("pmap",),
    pattern=re.compile(rb"_axes"),
    bad=(
        "import jax\np = jax.pmap(f, out_axes=-1)  # SL207",
        "import jax\np = jax.pmap(f, in_axes=(0, -1))  # SL207",
    ),
    good=(
        "import jax\np = jax.pmap(f, in_axes=(0, None), out_axes=1)",
        "import jax\np = jax.vmap(f, out_axes=-1)",
        "import jax\np = jax.pmap(f, out_axes=axes)",
    ),
    since=(0, 8),
)
