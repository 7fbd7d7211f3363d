"""Names of library functions that rules and rewrites recognise."""

# Libraries are recognised by name, even if their own source is part of the project.
LIBRARIES = frozenset(
    {"jax", "jaxlib", "flax", "equinox", "objax", "haiku", "optax", "numpy", "functools"}
)
PMAPS = frozenset({
    "jax.pmap", "jax.api.pmap", "equinox.filter_pmap", "flax.nnx.pmap",
    "flax.experimental.nnx.pmap", "objax.Parallel",
})  # fmt: skip
# What `jax.pmap` takes after the function, in this order.
PMAP_ARGUMENTS = (
    "axis_name", "in_axes", "out_axes", "static_broadcasted_argnums", "devices", "backend",
    "axis_size", "donate_argnums",
)  # fmt: skip
TREE_MAPS = frozenset(
    {"jax.tree.map", "jax.tree_util.tree_map", "jax.tree_map", "jax.tree_multimap"}
)
UNREPLICATE = frozenset({"flax.jax_utils.unreplicate", "flax.training.common_utils.unreplicate"})
REPLICATE = frozenset({"flax.jax_utils.replicate", "jax.device_put_replicated"})
SHARD = frozenset({"flax.training.common_utils.shard"})
ROWS = frozenset({"flax.training.common_utils.shard_prng_key", "jax.device_put_sharded"})
TO_HOST = frozenset({"numpy.asarray", "numpy.array", "jax.device_get"})
NAMED_SHARDINGS = frozenset({"jax.NamedSharding", "jax.sharding.NamedSharding"})
SPECS = frozenset({"jax.P", "jax.sharding.PartitionSpec", "jax.experimental.PartitionSpec"})
MESHES = frozenset({"jax.make_mesh", "jax.sharding.Mesh", "jax.experimental.maps.Mesh"})
REDUCTIONS = frozenset(f"jax.lax.{name}" for name in ("psum", "pmean", "pmax", "pmin"))
COLLECTIVES = REDUCTIONS | {"jax.lax.all_gather", "jax.lax.psum_scatter"}
# `from jax import partial` worked until JAX 0.2.22.
PARTIALS = frozenset({"functools.partial", "jax.partial"})
GRADS = frozenset({"jax.grad", "jax.value_and_grad"})
