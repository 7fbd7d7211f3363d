"""A function or type of `jax.numpy`, `jax.random` or `jax.ops` that is gone."""

from shardlift.check.renames import removed_rule
from shardlift.source.removed_names import NUMPY

RULE = removed_rule(
    code="SL108",
    rows=NUMPY,
    summary="a name of jax.numpy, jax.random or jax.ops that is gone",
    bad=(
        "import jax.numpy as jnp\ny = jnp.product(x)  # SL108",
        "import jax\ndef f(key: jax.random.KeyArray):  # SL108\n    pass",
        "from jax.ops import index_update  # SL108",
    ),
    good=(
        "import numpy as np\ny = np.product(x)",
        "import jax\ny = jax.ops.segment_sum(x, i)",
        "import itertools\ny = itertools.product(a, b)",
        "import jax\ndef f(key: jax.Array):\n    pass",
    ),
)
