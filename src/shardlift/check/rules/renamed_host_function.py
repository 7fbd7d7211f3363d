"""`jax.host_id`, `host_count` and `host_ids` are old names of `process_index` and its family.

They still work, warn at each call, and JAX says that they will go.
"""

from shardlift.check.renames import removed_rule
from shardlift.source.model import Level
from shardlift.source.removed_names import HOSTS

RULE = removed_rule(
    code="SL106",
    rows=HOSTS,
    level=Level.NOTE,
    summary="jax.host_id and its family, renamed to process_index",
    advice="Use jax.process_index, process_count, process_indices.",
    bad=(
        "import jax\nif jax.host_id() == 0:  # SL106\n    pass",
        "from jax import host_count  # SL106",
    ),
    good=(
        "import jax\nx = jax.experimental.multihost_utils",
        "jax = object()\njax.host_id()",
        "from mylib import host_count\nhost_count()",
    ),
)
