"""A loop over `jnp.arange` indexes a pmap output row by row.

The index is an array and not a number, so each row is a gather whose source is only known at run
time. `range` is slightly better. A loop over `.addressable_shards` moves no data at all.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Level, Match, Rule
from shardlift.source.outputs import is_container, output_of
from shardlift.source.values import Element, Result


def visit(file: File) -> Iterator[Match]:
    """A pmap output that is indexed by the variable of a loop over `jnp.arange`."""
    for node in file.index.nodes(ast.Subscript):
        if isinstance(node.slice, ast.Name) and isinstance(node.ctx, ast.Load):
            index = file.only(node.slice)
            source = index.of if isinstance(index, Element) else None
            traced = isinstance(source, Result) and source.path == "jax.numpy.arange"
            output = output_of(file, node.value) if traced else None
            if output is not None and not is_container(output):
                yield Match(node, f"`{file.brief(node)}` is a gather in each iteration of the loop")


RULE = Rule(
    code="SL403",
    level=Level.SLOW,
    summary="a loop over jnp.arange that indexes a pmap output",
    advice="Loop over x.addressable_shards or range().",
    reference=f"{GUIDE}#jaxruntimeerror-invalid-argument-copyarrays-same-size",
    words=("pmap",),
    bad=(
        "import jax\nimport jax.numpy as jnp\nf = jax.pmap(jnp.sin)\ny = f(x)\n"
        "for i in jnp.arange(8):\n    print(y[i])  # SL403",
        "import jax\nimport jax.numpy as jnp\nf = jax.pmap(jnp.sin)\ny = f(x)\n"
        "rows = [y[i] for i in jnp.arange(8)]  # SL403",
    ),
    good=(
        "import jax\nf = jax.pmap(jax.numpy.sin)\ny = f(x)\nfor i in range(8):\n    print(y[i])",
        "import jax\nimport jax.numpy as jnp\nf = jax.pmap(lambda x: (x, x))\ny = f(x)\n"
        "for i in jnp.arange(2):\n    print(y[i])",
        "import jax\nimport numpy as np\nf = jax.pmap(g)\ny = f(x)\n"
        "for i in np.arange(8):\n    print(y[i])",
    ),
    since=(0, 8),
)
