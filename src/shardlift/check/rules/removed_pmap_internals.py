"""A name from `jax.interpreters.pxla` or `.xla` that held up the old pmap, and went with it."""

from shardlift.check.renames import removed_rule
from shardlift.source.removed_names import PXLA

RULE = removed_rule(
    code="SL103",
    rows=PXLA,
    summary="an internal name of the old pmap",
    advice="Use jax.Array, .addressable_shards and NamedSharding; there is no other successor.",
    why="it belonged to the old pmap",
    bad=(
        "from jax.interpreters import pxla\nok = isinstance(x, pxla.ShardedDeviceArray)  # SL103",
        "from jax.interpreters.pxla import ShardingSpec  # SL103",
        "import jax\nprimitive = jax.interpreters.pxla.xla_pmap_p  # SL103",
    ),
    good=(
        "import jax\nok = isinstance(x, jax.Array)",
        "import pxla\nok = isinstance(x, pxla.ShardedDeviceArray)",
        "from jax.interpreters import pxla\n"
        "if hasattr(pxla, 'ShardingSpec'):\n    spec = pxla.ShardingSpec",
        "text = 'pxla.ShardingSpec'",
    ),
)
