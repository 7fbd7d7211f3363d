"""`jax.tree_map` and its family are `jax.tree.map` and its family since JAX 0.6.

The functions are the same, so the fix is safe.
"""

from __future__ import annotations

from functools import partial

from shardlift.check.renames import gone
from shardlift.source.model import CHANGELOG, Kind, Level, Rule
from shardlift.source.removed_names import TREES, names

visit = partial(gone, rows=TREES)
RULE = Rule(
    code="SL105",
    level=Level.BROKEN,
    summary="jax.tree_map and its family, gone since JAX 0.6",
    advice="Use jax.tree.map and its family.",
    reference=CHANGELOG,
    names=names(TREES),
    bad=(
        "import jax\ny = jax.tree_map(f, x)  # SL105",
        "from jax import tree_leaves  # SL105",
        "import jax\nfrom jax import tree_util\ny = tree_util.tree_multimap(f, x)  # SL105",
    ),
    good=(
        "import jax\ny = jax.tree_util.tree_map(f, x)",
        "from jax.tree_util import tree_map\ny = tree_map(f, x)",
        "import haiku\ny = haiku.tree_map(f, x)",
        "jax = object()\ny = jax.tree_map(f, x)",
        "import jax\ntree_map = getattr(jax, 'tree_map', None)",
    ),
    rewritten_as=frozenset({Kind.NAME}),
)
