"""A sharding class, or a name around shardings, that JAX no longer has.

`PmapSharding` went with the old pmap in 0.10: what pmap returns now has a `NamedSharding`, so a
test for the old class is never true. `jax.SingleDeviceSharding`, which the migration guide
names, has only ever been `jax.sharding.SingleDeviceSharding`.
"""

from shardlift.check.renames import removed_rule
from shardlift.source.model import GUIDE
from shardlift.source.removed_names import SHARDINGS

RULE = removed_rule(
    code="SL102",
    rows=SHARDINGS,
    summary="PmapSharding or another sharding name that is gone",
    advice="Use jax.sharding.NamedSharding(mesh, PartitionSpec(...)).",
    reference=f"{GUIDE}#shardings",
    bad=(
        "import jax\nok = isinstance(x.sharding, jax.sharding.PmapSharding)  # SL102",
        "import jax\ns = jax.SingleDeviceSharding(d)  # SL102",
        "from jax.experimental.pjit import PartitionSpec as P  # SL102",
    ),
    good=(
        "import jax\ns = jax.sharding.SingleDeviceSharding(d)",
        "from mylib.sharding import PmapSharding",
        "try:\n    from jax.sharding import PmapSharding\nexcept ImportError:\n    pass",
        "class PmapSharding:\n    pass\ns = PmapSharding()",
    ),
)
