"""`jax.tree_map` and its family are `jax.tree.map` and its family since JAX 0.6.

The functions are the same, so the fix is safe.
"""

from shardlift.check.renames import removed_rule
from shardlift.source.removed_names import TREES

RULE = removed_rule(
    code="SL105",
    rows=TREES,
    summary="jax.tree_map and its family, gone since JAX 0.6",
    advice="Use jax.tree.map and its family.",
    bad=(
        "import jax\ny = jax.tree_map(f, x)  # SL105",
        "import jax\nfrom jax import tree_util\ny = tree_util.tree_multimap(f, x)  # SL105",
    ),
    good=(
        "import jax\ny = jax.tree_util.tree_map(f, x)",
        "jax = object()\ny = jax.tree_map(f, x)",
        "import jax\ntree_map = getattr(jax, 'tree_map', None)",
    ),
)
