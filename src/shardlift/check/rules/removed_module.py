"""A module of JAX or flax that is gone: `jax.experimental.maps`, `flax.optim`, and others.

The import fails before the program does anything else; many pmap programs of their time stop
here first.
"""

from shardlift.check.renames import removed_rule
from shardlift.source.removed_names import FLAX, MODULES

RULE = removed_rule(
    code="SL107",
    rows=(*MODULES, *FLAX),
    summary="a module of JAX or flax that is gone",
    bad=(
        "from jax.experimental import stax  # SL107",
        "from jax.experimental.maps import xmap, Mesh  # SL107",
        "import jax.linear_util as lu  # SL107",
        "from flax import optim  # SL107",
        "import jax.tools.colab_tpu  # SL107\njax.tools.colab_tpu.setup_tpu()  # SL107",
        "from jax import cloud_tpu_init  # SL107",
        "import jax\nplatform = jax.lib.xla_bridge.get_backend().platform  # SL107",
    ),
    good=(
        "from jax.example_libraries import stax",
        "from jax.extend import linear_util as lu",
        "import jax\nplatform = jax.default_backend()",
        "from mylib import maps",
        "from jax import config",
        "import jax\njax.config.update('jax_enable_x64', True)",
        "import jax\nn = jax.api_util",
        "try:\n    from jax.experimental import maps\nexcept ImportError:\n    maps = None",
    ),
)
