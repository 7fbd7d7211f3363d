"""Text that the examples of several rules share."""

SPECS = "import jax\nfrom jax.sharding import PartitionSpec as P\n"
LAX = "import jax\nfrom jax import lax\nfrom jax.sharding import PartitionSpec as P\n"
# Around the body `f` of an example: a shard_map of it that is called with pmap's layout.
BLOCK_HEAD = (
    "import jax\nimport jax.numpy as jnp\nfrom jax.sharding import PartitionSpec as P\n"
    "n = jax.device_count()\n"
)
SHARD_MAP = "g = jax.jit(jax.shard_map(f, mesh=m, in_specs=P('i'), out_specs=P('i')))\n"
BLOCK_CALL = f"{SHARD_MAP}y = g(x.reshape((n, -1)))\n"
