"""`jax.experimental.shard_map.shard_map` is now `jax.shard_map`, with other keywords.

The old name is deprecated since JAX 0.8. In the new function `check_rep` is `check_vma`, mesh and
specs are keyword-only, and `axis_names` replaces `auto` and lists the opposite set of axes.
"""

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.guarded import is_guarded
from shardlift.source.model import SHARD_MAP, Level, Match, Rule
from shardlift.source.shard_maps import NEW, OLD


def visit(file: File) -> Iterator[Match]:
    """Imports of the old name, and uses of its full name."""
    froms = [s for s in file.index.nodes(ast.ImportFrom) if f"{s.module}.shard_map" == OLD]
    uses = [node for node in file.index.attributes["shard_map"] if file.name(node) == OLD]
    for node in (*froms, *uses):
        if not is_guarded(file, node, OLD, NEW):
            yield Match(node, "jax.experimental.shard_map is deprecated: use jax.shard_map")


RULE = Rule(
    code="SL111",
    level=Level.NOTE,
    summary="the experimental shard_map, deprecated since JAX 0.8",
    advice="Use jax.shard_map with mesh=, in_specs=, out_specs=, check_vma=.",
    reference=SHARD_MAP,
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        "from jax.experimental.shard_map import shard_map  # SL111",
        "from jax.experimental import shard_map as sm\ng = sm.shard_map(f, m, s, s)  # SL111",
    ),
    good=(
        "import jax\ng = jax.shard_map(f, mesh=m, in_specs=s, out_specs=s, check_vma=False)",
        "try:\n    from jax import shard_map\nexcept ImportError:\n"
        "    from jax.experimental.shard_map import shard_map",
        "import jax\nif jax.__version_info__ < (0, 8):\n"
        "    from jax.experimental.shard_map import shard_map",
        "import jax\ng = jax.shard_map(f, mesh=m, in_specs=s, out_specs=s, axis_names={'i'})",
    ),
    since=(0, 8),
)
