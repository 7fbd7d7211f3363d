"""Names that JAX no longer has: when each went, and what took its place.

Every row is checked against the installed JAX by `tests/source/test_removed_names.py`: present
before, absent from `gone` on, the successor there. The releases are those of JAX's own change log.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardlift.source.model import Version


@dataclass(frozen=True)
class Removed:
    """One name; `same` says that the successor is the very same thing under another name."""

    name: str
    gone: Version
    successor: str = ""
    same: bool = False


def _renamed(gone: Version, old: str, new: str, pairs: str) -> tuple[Removed, ...]:
    """`pairs` reads `tree_map=map tree_leaves=leaves`."""
    return tuple(
        Removed(f"{old}.{was}", gone, f"{new}.{now or was}", same=True)
        for was, _, now in (pair.partition("=") for pair in pairs.split())
    )


def _dropped(gone: Version, parent: str, names: str, successor: str = "") -> tuple[Removed, ...]:
    return tuple(Removed(f"{parent}.{name}", gone, successor) for name in names.split())


PLACEMENT = _dropped((0, 10), "jax", "device_put_sharded device_put_replicated")

TREES = (
    *_renamed(
        (0, 6),
        "jax",
        "jax.tree",
        "tree_map=map tree_leaves=leaves tree_flatten=flatten tree_unflatten=unflatten "
        "tree_structure=structure tree_transpose=transpose",
    ),
    *_renamed((0, 4, 26), "jax", "jax.tree", "tree_all=all"),
    *_renamed((0, 6), "jax", "jax.tree_util", "treedef_is_leaf"),
    *_renamed((0, 4), "jax", "jax.tree_util", "treedef_tuple treedef_children"),
    *_renamed((0, 3, 16), "jax", "jax.tree", "tree_multimap=map"),
    *_renamed((0, 3, 16), "jax.tree_util", "jax.tree_util", "tree_multimap=tree_map"),
    *_dropped(
        (0, 4, 24),
        "jax.tree_util",
        "register_keypaths AttributeKeyPathEntry GetitemKeyPathEntry",
        "jax.tree_util.register_pytree_with_keys",
    ),
)

SHARDINGS = (
    Removed("jax.sharding.PmapSharding", (0, 10), "jax.sharding.NamedSharding"),
    Removed("jax.sharding.PositionalSharding", (0, 7), "jax.sharding.NamedSharding"),
    Removed("jax.sharding.GSPMDSharding", (0, 7), "jax.sharding.NamedSharding"),
    Removed("jax.sharding.OpShardingSharding", (0, 4, 12), "jax.sharding.NamedSharding"),
    Removed("jax.sharding.XLACompatibleSharding", (0, 4, 34), "jax.sharding.Sharding"),
    Removed("jax.sharding.use_mesh", (0, 7, 1), "jax.set_mesh", same=True),
    *_renamed((0, 4, 11), "jax.experimental", "jax.sharding", "PartitionSpec"),
    *_renamed((0, 4, 11), "jax.experimental.pjit", "jax.sharding", "PartitionSpec NamedSharding"),
    *_renamed((0, 4, 11), "jax.interpreters.pxla", "jax.sharding", "PartitionSpec Mesh"),
    *_renamed((0, 4, 31), "jax.experimental.maps", "jax.sharding", "Mesh"),
    # The migration guide names it here; it has only ever been in jax.sharding.
    *_renamed((0,), "jax", "jax.sharding", "SingleDeviceSharding"),
)

PXLA = (
    *_dropped(
        (0, 10),
        "jax.interpreters.pxla",
        "PmapExecutable parallel_callable shard_args xla_pmap_p Chunked NoSharding Replicated "
        "ShardedAxis ShardingSpec spec_to_indices",
    ),
    *_dropped((0, 11), "jax.interpreters.pxla", "MeshExecutable global_result_handlers"),
    *_dropped((0, 4, 14), "jax.interpreters.pxla", "ShardedDeviceArray", "jax.Array"),
    *_dropped((0, 4, 14), "jax.interpreters.pxla", "make_sharded_device_array"),
    *_dropped((0, 4, 11), "jax.interpreters.xla", "DeviceArray", "jax.Array"),
    *_dropped((0, 4, 36), "jax.interpreters.xla", "xb xc xe"),
    *_dropped((0, 7), "jax.interpreters.xla", "abstractify pytype_aval_mappings"),
    *_dropped((0, 8), "jax.interpreters.xla", "canonicalize_dtype"),
    Removed("jax.soft_pmap", (0, 3, 18)),
)

MODULES = (
    Removed("jax.experimental.maps", (0, 4, 31), "jax.shard_map"),
    Removed("jax.experimental.stax", (0, 3, 16), "jax.example_libraries.stax", same=True),
    Removed(
        "jax.experimental.optimizers", (0, 3, 16), "jax.example_libraries.optimizers", same=True
    ),
    Removed("jax.experimental.loops", (0, 3, 16)),
    Removed("jax.experimental.host_callback", (0, 8), "jax.experimental.io_callback"),
    Removed("jax.experimental.global_device_array", (0, 4, 7), "jax.Array"),
    Removed("jax.experimental.sharded_jit", (0, 3, 18), "jax.jit"),
    Removed("jax.experimental.export", (0, 4, 36), "jax.export"),
    Removed("jax.interpreters.sharded_jit", (0, 3, 18), "jax.jit"),
    Removed("jax.lib.xla_bridge", (0, 9), "jax.extend.backend"),
    *_renamed((0, 9), "jax.lib.xla_bridge", "jax.extend.backend", "get_backend"),
    *_renamed(
        (0, 9),
        "jax.lib.xla_bridge",
        "jax",
        "device_count local_device_count devices local_devices process_index process_count "
        "default_backend",
    ),
    Removed("jax.lib.xla_client", (0, 9), "jax.extend"),
    Removed("jax.lib.xla_extension", (0, 9), "jax.extend"),
    Removed("jax.config.config", (0, 4, 25), "jax.config", same=True),
    Removed("jax.linear_util", (0, 4, 24), "jax.extend.linear_util", same=True),
    Removed("jax.abstract_arrays", (0, 4, 17), "jax.core"),
    *_renamed((0, 4, 17), "jax.abstract_arrays", "jax.core", "ShapedArray"),
    Removed("jax.prng", (0, 4, 24), "jax.extend.random"),
    Removed("jax.api", (0, 2, 21), "jax"),
    *_renamed((0, 2, 21), "jax.api", "jax", "jit grad value_and_grad vmap jacfwd jacrev jvp vjp"),
    Removed("jax.util", (0, 8)),
    Removed("jax.cloud_tpu_init", (0, 11)),
    Removed("jax.tools.colab_tpu", (0, 10)),
)

NUMPY = (
    *_renamed(
        (0, 4, 16),
        "jax.numpy",
        "jax.numpy",
        "product=prod cumproduct=cumprod alltrue=all sometrue=any",
    ),
    *_renamed((0, 4, 24), "jax.numpy", "jax.numpy", "row_stack=vstack in1d=isin"),
    *_dropped((0, 4, 24), "jax.numpy", "NINF NZERO PZERO"),
    *_renamed((0, 4, 24), "jax.scipy.linalg", "jax.numpy", "tril triu"),
    *_renamed((0, 4, 38), "jax.numpy", "jax.numpy", "round_=round"),
    *_renamed((0, 10), "jax.numpy", "jax.numpy", "fix=trunc"),
    Removed("jax.numpy.trapz", (0, 4, 24), "jax.scipy.integrate.trapezoid", same=True),
    Removed("jax.numpy.msort", (0, 4, 9), "jax.numpy.sort"),
    Removed("jax.numpy.DeviceArray", (0, 4, 14), "jax.Array", same=True),
    Removed("jax.random.KeyArray", (0, 4, 24), "jax.Array", same=True),
    Removed("jax.random.PRNGKeyArray", (0, 4, 24), "jax.Array", same=True),
    Removed("jax.random.shuffle", (0, 4, 31), "jax.random.permutation"),
    Removed("jax.random.default_prng_impl", (0, 4, 24), "jax.random.key_impl"),
    *_dropped((0, 3, 2), "jax.ops", "index_update index_add index_mul index_min index_max index"),
    Removed("jax.lax.tie_in", (0, 4, 29)),
    *_renamed((0, 9), "jax.lax", "jax.numpy", "zeros_like_array=zeros_like"),
    *_renamed((0, 10), "jax.ad_checkpoint", "jax", "checkpoint remat"),
    *_renamed(
        (0, 8),
        "jax.experimental.compilation_cache.compilation_cache",
        "jax.experimental.compilation_cache.compilation_cache",
        "initialize_cache=set_cache_dir",
    ),
    Removed("jax.dlpack.to_dlpack", (0, 7)),
    Removed("jax.partial", (0, 2, 21), "functools.partial", same=True),
)

CORE = (
    *_renamed(
        (0, 6),
        "jax.core",
        "jax.extend.core",
        "ClosedJaxpr Jaxpr JaxprEqn Literal Primitive Var jaxpr_as_fun",
    ),
    *_dropped((0, 7), "jax.core", "AxisName axis_frame trace_state_clean"),
    *_dropped(
        (0, 6), "jax.core", "full_lower raise_to_shaped reset_trace_state ConcreteArray NamedShape"
    ),
    *_dropped(
        (0, 11),
        "jax.core",
        "concrete_or_error gensym new_jaxpr_eqn unsafe_am_i_under_a_jit_DO_NOT_USE "
        "unsafe_get_axis_names_DO_NOT_USE",
    ),
    *_dropped((0, 10), "jax.core", "get_aval", "jax.typeof"),
    *_dropped((0, 10), "jax.core", "mapped_aval unmapped_aval"),
    *_dropped((0, 10), "jax.experimental", "enable_x64 disable_x64", "jax.enable_x64"),
    *_dropped((0, 10), "jax.lax", "pvary", "jax.lax.pcast"),
    Removed("jax.xla_computation", (0, 4, 36)),
    Removed("jax.clear_backends", (0, 4, 36), "jax.extend.backend.clear_backends"),
    Removed("jax.mask", (0, 3, 16)),
    Removed("jax.ShapedArray", (0, 4, 14), "jax.core.ShapedArray", same=True),
    *_renamed((0, 4, 14), "jax", "jax.interpreters", "partial_eval pxla xla"),
)

TABLE = (*PLACEMENT, *TREES, *SHARDINGS, *PXLA, *MODULES, *NUMPY, *CORE)


def sentence(row: Removed) -> str:
    """`jax.tree_map was removed in JAX 0.6: use jax.tree.map`."""
    if row.gone == (0,):
        when = "does not exist"
    else:
        when = f"was removed in JAX {'.'.join(map(str, row.gone))}"
    if not row.successor:
        return f"{row.name} {when}"
    return f"{row.name} {when}: {'use' if row.same else 'see'} {row.successor}"


def names(rows: tuple[Removed, ...]) -> tuple[str, ...]:
    """The names of the rows, to look for before a file is parsed."""
    return tuple(row.name for row in rows)
