"""A name of `jax.core`, or another part for libraries or inside JAX, that is gone or has moved."""

from shardlift.check.renames import removed_rule
from shardlift.source.removed_names import CORE, PRIVATE

RULE = removed_rule(
    code="SL109",
    rows=(*CORE, *PRIVATE),
    summary="a name of jax.core, or inside JAX, that is gone or has moved",
    bad=(
        "import jax\np = jax.core.Primitive('p')  # SL109",
        "from jax.experimental import enable_x64  # SL109",
    ),
    good=(
        "from jax.extend.core import Primitive",
        "import jax\nwith jax.enable_x64(True):\n    pass",
        "import jax\naval = jax.core.ShapedArray((2,), 'float32')",
    ),
)
