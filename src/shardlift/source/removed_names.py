"""Names that JAX and flax no longer have: the release that removed each, and its successor.

Every row of JAX is checked against the installed JAX by `tests/source/test_removed_names.py`: the
name is there before `gone` and absent from then on, and the successor is there. The releases are
those of the change logs; where a change log is silent, the releases themselves were searched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from shardlift.source.model import Version
from shardlift.source.removed_internals import INTERNALS
from shardlift.source.settings import Settings


@dataclass(frozen=True)
class Removed:
    """One name; `same` says that the successor is the very same thing under another name.

    `gone` is a release of the library that the name begins with.
    """

    name: str
    gone: Version
    successor: str = ""
    same: bool = False
    note: str = ""  # what to do without a successor, or why nothing replaces it

    @property
    def answer(self) -> str:
        """What to write instead; or why nothing replaces it."""
        return f"{'use' if self.same else 'see'} {self.successor}" if self.successor else self.note

    @property
    def is_deleted(self) -> bool:
        """Whether calls of it can be deleted: they have nothing left to do."""
        return self.note.startswith(DELETE)


def _renames(gone: Version, old: str, new: str, pairs: str) -> tuple[Removed, ...]:
    """`pairs` reads `tree_map=map tree_leaves=leaves`."""
    return tuple(
        Removed(f"{old}.{was}", gone, f"{new}.{now or was}", same=True)
        for was, _, now in (pair.partition("=") for pair in pairs.split())
    )


def _without_successor(
    gone: Version, parent: str, names: str, successor: str = ""
) -> tuple[Removed, ...]:
    return tuple(Removed(f"{parent}.{name}", gone, successor) for name in names.split())


def _follow_successors(rows: tuple[Removed, ...]) -> tuple[Removed, ...]:
    """The rows, and those that follow: no name has a removed name for its successor.

    With `jax.pxla` renamed to `jax.interpreters.pxla`, and `ShardedDeviceArray` of that to
    `jax.Array`, `jax.pxla.ShardedDeviceArray` is `jax.Array`.
    """
    known = {row.name: row for row in ROWS}
    found: dict[str, Removed] = {}
    for row in (known[row.name] for row in rows):
        then = known.get(row.successor)
        found[row.name] = _compose(row, then, "") if then is not None else row
        for name, inner in known.items():
            if row.same and name.startswith(f"{row.successor}.") and name != row.name:
                follows = _compose(row, inner, name.removeprefix(row.successor))
                found.setdefault(follows.name, follows)
    return tuple(found.values())


def _compose(row: Removed, then: Removed, rest: str) -> Removed:
    same = row.same and then.same
    return Removed(f"{row.name}{rest}", max(row.gone, then.gone), then.successor, same, then.note)


# What the successor can be called with where it takes less than the removed function did: how many
# arguments by position, and which by name. No entry: what the function took; `_NEVER`: not at all.
_NEVER = (-1, "")
_SHAPED_ARRAY = (3, "shape dtype weak_type")
_CALLS = {
    "jax.core.gensym": (0, ""),
    "jax.core.find_top_trace": (1, ""),
    "jax.core.JaxprEqn": _NEVER,
    "jax.core.Token": _NEVER,
    "jax.core.Var": _NEVER,
    "jax.core.unmapped_aval": _NEVER,
    "jax.experimental.layout.DeviceLocalLayout": (1, "major_to_minor"),
    "jax.experimental.shard.auto_axes": (1, "axes"),
    "jax.experimental.shard.explicit_axes": (1, "axes"),
    "jax.lax.zeros_like_array": (1, ""),
    "jax.lib.xla_bridge.get_compile_options": (3, "num_replicas num_partitions device_assignment"),
    "jax.numpy.fix": (1, "x"),
    "jax.numpy.in1d": (4, "assume_unique invert"),
    **{f"{base}.ShapedArray": _SHAPED_ARRAY for base in ("jax", "jax.abstract_arrays")},
    **{f"{base}.ShapedArray": _SHAPED_ARRAY for base in ("jax.xla", "jax.interpreters.xla")},
    **{f"{base}.canonicalize_dtype": (1, "") for base in ("jax.xla", "jax.interpreters.xla")},
    **{f"{base}.device_put": _NEVER for base in ("jax.xla", "jax.interpreters.xla")},
    **{f"{base}.device_put": _NEVER for base in ("jax.pxla", "jax.interpreters.pxla")},
}


def can_call(row: Removed, positional: int, keywords: Iterable[str]) -> bool:
    """Whether a call of a removed function, with so many arguments, is one of its successor."""
    if row.name not in _CALLS:
        return True
    most, names = _CALLS[row.name]
    return positional <= most and {*keywords} <= {*names.split()}


PLACEMENT = _without_successor((0, 10), "jax", "device_put_sharded device_put_replicated")

TREES = (
    *_renames(
        (0, 6),
        "jax",
        "jax.tree",
        "tree_map=map tree_leaves=leaves tree_flatten=flatten tree_unflatten=unflatten "
        "tree_structure=structure tree_transpose=transpose",
    ),
    *_renames((0, 4, 26), "jax", "jax.tree", "tree_all=all"),
    *_renames((0, 6), "jax", "jax.tree_util", "treedef_is_leaf"),
    *_renames((0, 4), "jax", "jax.tree_util", "treedef_tuple treedef_children"),
    *_renames((0, 3, 16), "jax", "jax.tree", "tree_multimap=map"),
    *_renames((0, 3, 16), "jax.tree_util", "jax.tree_util", "tree_multimap=tree_map"),
    *_without_successor(
        (0, 4, 24),
        "jax.tree_util",
        "register_keypaths AttributeKeyPathEntry GetitemKeyPathEntry",
        "jax.tree_util.register_pytree_with_keys",
    ),
    *_without_successor((0, 7), "jax.tree_util", "build_tree", "jax.tree.unflatten"),
)

SHARDINGS = (
    Removed("jax.sharding.PmapSharding", (0, 10), "jax.sharding.NamedSharding"),
    Removed("jax.sharding.PositionalSharding", (0, 7), "jax.sharding.NamedSharding"),
    Removed("jax.sharding.GSPMDSharding", (0, 7), "jax.sharding.NamedSharding"),
    Removed("jax.sharding.OpShardingSharding", (0, 4, 12), "jax.sharding.NamedSharding"),
    *_renames((0, 4, 5), "jax.sharding", "jax.sharding", "MeshPspecSharding=NamedSharding"),
    Removed("jax.sharding.XLACompatibleSharding", (0, 4, 34), "jax.sharding.Sharding"),
    Removed("jax.sharding.use_mesh", (0, 7, 1), "jax.set_mesh", same=True),
    *_renames((0, 4, 11), "jax.experimental", "jax.sharding", "PartitionSpec"),
    *_renames((0, 4, 11), "jax.experimental.pjit", "jax.sharding", "PartitionSpec NamedSharding"),
    *_renames((0, 4, 24), "jax.experimental.pjit", "jax.lax", "with_sharding_constraint"),
    *_renames((0, 3, 16), "jax.experimental", "jax.lax", "with_sharding_constraint"),
    *_renames(
        (0, 3, 24),
        "jax.experimental.pjit",
        "jax.experimental.multihost_utils",
        "global_array_to_host_local_array host_local_array_to_global_array",
    ),
    *_renames((0, 5, 3), "jax.sharding", "jax.sharding", "AxisTypes=AxisType"),
    *_without_successor((0, 4, 11), "jax.experimental.pjit", "FROM_GDA"),
    *_renames((0, 4, 11), "jax.interpreters.pxla", "jax.sharding", "PartitionSpec Mesh"),
    *_renames((0, 4, 31), "jax.experimental.maps", "jax.sharding", "Mesh"),
    *_renames((0, 7), "jax.experimental.shard", "jax.sharding", "reshard auto_axes explicit_axes"),
    # The migration guide names it here; it has only ever been in jax.sharding.
    *_renames((0,), "jax", "jax.sharding", "SingleDeviceSharding"),
)

PXLA = (
    *_without_successor(
        (0, 10),
        "jax.interpreters.pxla",
        "MapTracer PmapExecutable parallel_callable shard_args xla_pmap_p Chunked NoSharding "
        "Replicated ShardedAxis ShardingSpec Unstacked spec_to_indices",
    ),
    *_without_successor(
        (0, 11),
        "jax.interpreters.pxla",
        "Index MeshAxisName MeshExecutable global_aval_to_result_handler global_result_handlers "
        "are_hlo_shardings_equal is_hlo_sharding_replicated ArrayMapping "
        "array_mapping_to_axis_resources op_sharding_to_indices",
    ),
    *_without_successor(
        (0, 7, 2), "jax.interpreters.pxla", "are_op_shardings_equal is_op_sharding_replicated"
    ),
    *_without_successor((0, 4, 14), "jax.interpreters.pxla", "ShardedDeviceArray", "jax.Array"),
    *_renames((0, 4, 14), "jax.interpreters.pxla", "jax", "device_put"),
    *_without_successor(
        (0, 4, 14),
        "jax.interpreters.pxla",
        "make_sharded_device_array",
        "jax.make_array_from_single_device_arrays",
    ),
    *_without_successor(
        (0, 4, 14),
        "jax.interpreters.pxla",
        "AUTO find_replicas local_aval_to_result_handler lower_mesh_computation "
        "lower_parallel_callable lower_sharding_computation maybe_extend_axis_env replicate "
        "resource_typecheck shard_arg_handlers shard_aval sharding_spec_sharding_proto "
        "stage_parallel_callable tile_aval_nd untile_aval_nd wrap_name xla_pmap xla_pmap_impl",
    ),
    *_without_successor((0, 4, 24), "jax.interpreters.pxla", "mesh_sharding_specs"),
    *_without_successor((0, 4, 29), "jax.interpreters.pxla", "shard_arg"),
    *_renames((0, 4, 11), "jax.interpreters.xla", "jax", "DeviceArray=Array Buffer=Array"),
    *_renames((0, 4, 11), "jax.interpreters.xla", "jax", "Device device_put"),
    *_without_successor((0, 4, 11), "jax.interpreters.xla", "xla_call_p"),
    *_without_successor((0, 4, 16), "jax.interpreters.xla", "register_collective_primitive"),
    *_without_successor((0, 4, 24), "jax.interpreters.xla", "AxisEnv ConcreteArray axis_groups"),
    *_without_successor((0, 4, 24), "jax.interpreters.xla", "backend_compile"),
    *_renames((0, 4, 24), "jax.interpreters.xla", "jax.core", "ShapedArray"),
    *_without_successor(
        (0, 4, 29),
        "jax.interpreters.xla",
        "TranslationContext TranslationRule XlaOp backend_specific_translations "
        "register_translation translations xla_destructure",
        "jax.interpreters.mlir.register_lowering",
    ),
    *_without_successor((0, 4, 36), "jax.interpreters.xla", "xb xc xe"),
    *_without_successor((0, 7), "jax.interpreters.xla", "abstractify pytype_aval_mappings"),
    *_renames((0, 8), "jax.interpreters.xla", "jax.dtypes", "canonicalize_dtype"),
    Removed("jax.soft_pmap", (0, 3, 18)),
)

MODULES = (
    Removed("jax.experimental.maps", (0, 4, 31), "jax.shard_map"),
    Removed("jax.experimental.stax", (0, 3, 16), "jax.example_libraries.stax", same=True),
    Removed(
        "jax.experimental.optimizers", (0, 3, 16), "jax.example_libraries.optimizers", same=True
    ),
    Removed("jax.experimental.loops", (0, 3, 16)),
    Removed("jax.experimental.djax", (0, 3, 6)),
    Removed("jax.experimental.array", (0, 3, 19), "jax"),
    *_renames((0, 3, 19), "jax.experimental.array", "jax", "Array make_array_from_callback"),
    Removed("jax.experimental.sharding", (0, 3, 19), "jax.sharding", same=True),
    Removed("jax.interpreters.masking", (0, 3, 16)),
    Removed("jax.interpreters.invertible_ad", (0, 3, 6)),
    Removed("jax.experimental.compilation_cache.file_system_cache", (0, 3, 14)),
    Removed("jax.experimental.compilation_cache.gfile_cache", (0, 4, 9)),
    Removed("jax.experimental.compilation_cache.cache_interface", (0, 4, 9)),
    Removed("jax.experimental.optix", (0, 2, 5)),
    Removed("jax.experimental.vectorize", (0, 2, 1), "jax.numpy.vectorize"),
    Removed("jax.experimental.ann", (0, 3, 1), "jax.lax.approx_max_k"),
    Removed("jax.experimental.callback", (0, 4, 2), "jax.pure_callback"),
    Removed("jax.experimental.gda_serialization", (0, 4, 24)),
    Removed("jax.experimental.array_api", (0, 5), "jax.numpy"),
    Removed("jax.experimental.attrs", (0, 7)),
    Removed("jax.experimental.shard", (0, 7), "jax.sharding"),
    Removed("jax.experimental.x64_context", (0, 10), "jax.enable_x64"),
    Removed("jax.experimental.custom_dce", (0, 10)),
    Removed("jax.experimental.host_callback", (0, 8)),
    Removed("jax.experimental.global_device_array", (0, 4, 7), "jax.Array"),
    Removed("jax.experimental.sharded_jit", (0, 3, 18), "jax.jit"),
    Removed("jax.experimental.export", (0, 4, 36), "jax.export"),
    Removed("jax.interpreters.sharded_jit", (0, 3, 18), "jax.jit"),
    Removed("jax.lib.xla_bridge", (0, 9), "jax.extend.backend"),
    *_renames(
        (0, 8), "jax.lib.xla_bridge", "jax.extend.backend", "get_backend get_compile_options"
    ),
    *_renames(
        (0, 9),
        "jax.lib.xla_bridge",
        "jax",
        "device_count local_device_count devices local_devices process_index process_count",
    ),
    *_renames((0, 4, 38), "jax.lib.xla_bridge", "jax", "default_backend"),
    Removed("jax.lib.xla_client", (0, 9), "jax.extend"),
    *_renames((0, 5), "jax.lib.xla_client", "jax", "Device"),
    *_renames((0, 5), "jax.lib.xla_client", "jax.errors", "XlaRuntimeError=JaxRuntimeError"),
    *_renames((0, 6), "jax.lib.xla_client", "jax", "ArrayImpl=Array"),
    Removed("jax.lib.xla_extension", (0, 9), "jax.extend"),
    *_renames((0, 6), "jax.lib.xla_extension", "jax", "ArrayImpl=Array"),
    *_renames((0, 6), "jax.lib.xla_extension", "jax.errors", "XlaRuntimeError=JaxRuntimeError"),
    *_renames((0, 7), "jax.lib.xla_extension", "jax", "Device"),
    Removed("jax.config.config", (0, 4, 25), "jax.config", same=True),
    Removed("jax.linear_util", (0, 4, 24), "jax.extend.linear_util", same=True),
    Removed("jax.extend.ffi", (0, 8), "jax.ffi", same=True),
    Removed("jax.abstract_arrays", (0, 4, 17), "jax.core"),
    *_renames((0, 4, 17), "jax.abstract_arrays", "jax.core", "ShapedArray"),
    Removed("jax.jaxpr_util", (0, 4, 16)),
    Removed("jax.prng", (0, 4, 24), "jax.extend.random"),
    *_renames(
        (0, 4, 24),
        "jax.prng",
        "jax.extend.random",
        "rbg_prng_impl seed_with_impl threefry2x32_p threefry_2x32 threefry_prng_impl "
        "unsafe_rbg_prng_impl",
    ),
    Removed("jax.api", (0, 2, 21), "jax"),
    *_renames(
        (0, 2, 21),
        "jax.api",
        "jax",
        "jit grad value_and_grad vmap jacfwd jacrev hessian jvp vjp linearize linear_transpose "
        "eval_shape make_jaxpr checkpoint remat named_call device_put device_get ShapeDtypeStruct "
        "closure_convert custom_jvp custom_vjp disable_jit",
    ),
    Removed("jax.lax_linalg", (0, 2, 1), "jax.lax.linalg", same=True),
    Removed("jax.lax_reference", (0, 2, 10)),
    Removed("jax.util", (0, 8)),
    *_without_successor((0, 3, 2), "jax.test_util", "JaxTestCase JaxTestLoader with_config"),
    Removed("jax.cloud_tpu_init", (0, 11)),
    Removed("jax.tools.colab_tpu", (0, 10)),
    *_without_successor(
        (0, 4, 20),
        "jax.config",
        "FLAGS define_bool_state define_enum_state define_float_state define_int_state "
        "define_string_state",
    ),
    Removed("jax.experimental.control_deps", (0, 11, 1)),
    Removed("jax.experimental.shard_alike", (0, 12)),
)

NUMPY = (
    *_renames(
        (0, 4, 16),
        "jax.numpy",
        "jax.numpy",
        "product=prod cumproduct=cumprod alltrue=all sometrue=any",
    ),
    *_renames((0, 4, 24), "jax.numpy", "jax.numpy", "row_stack=vstack in1d=isin trapz=trapezoid"),
    *_without_successor((0, 4, 24), "jax.numpy", "NINF NZERO PZERO issubsctype"),
    *_renames((0, 4, 24), "jax.scipy.linalg", "jax.numpy", "tril triu"),
    *_renames((0, 4, 38), "jax.numpy", "jax.numpy", "round_=round"),
    *_renames((0, 10), "jax.numpy", "jax.numpy", "fix=trunc"),
    *_renames((0, 4, 29), "jax.nn", "jax.nn", "normalize=standardize"),
    Removed("jax.numpy.msort", (0, 4, 9), "jax.numpy.sort"),
    Removed("jax.numpy.DeviceArray", (0, 4, 14), "jax.Array", same=True),
    Removed("jax.numpy.lax_numpy", (0, 4, 5), "jax.numpy"),
    Removed("jax.random.KeyArray", (0, 4, 24), "jax.Array", same=True),
    Removed("jax.random.PRNGKeyArray", (0, 4, 24), "jax.Array", same=True),
    Removed("jax.random.shuffle", (0, 4, 31), "jax.random.permutation"),
    Removed("jax.random.default_prng_impl", (0, 4, 24), "jax.random.key_impl"),
    *_without_successor(
        (0, 4, 24), "jax.random", "rbg_key threefry2x32_key unsafe_rbg_key", "jax.random.key"
    ),
    *_renames((0, 4, 24), "jax.random", "jax.extend.random", "threefry2x32_p threefry_2x32"),
    *_without_successor(
        (0, 3, 2), "jax.ops", "index_update index_add index_mul index_min index_max"
    ),
    *_renames((0, 3, 2), "jax.ops", "jax.numpy", "index=s_"),
    *_without_successor((0, 4, 11), "jax.scipy.linalg", "polar_unitary", "jax.scipy.linalg.polar"),
    *_without_successor((0, 10), "jax.scipy.special", "sph_harm", "jax.scipy.special.sph_harm_y"),
    Removed("jax.lax.tie_in", (0, 4, 29)),
    *_without_successor((0, 6), "jax.lax", "random_gamma_grad_p"),
    *_renames((0, 2, 21), "jax.lax", "functools", "partial"),
    *_without_successor((0, 4, 16), "jax.lax", "prod"),
    *_without_successor((0, 4, 31), "jax.lax", "pdot xeinsum"),
    *_without_successor((0, 7), "jax.lax", "infeed infeed_p outfeed outfeed_p"),
    *_renames((0, 9), "jax.lax", "jax.numpy", "zeros_like_array=zeros_like"),
    *_renames((0, 10), "jax.ad_checkpoint", "jax", "checkpoint remat"),
    *_renames(
        (0, 8),
        "jax.experimental.compilation_cache.compilation_cache",
        "jax.experimental.compilation_cache.compilation_cache",
        "initialize_cache=set_cache_dir",
    ),
    *_without_successor(
        (0, 8), "jax.experimental.compilation_cache.compilation_cache", "is_initialized"
    ),
    *_renames(
        (0, 7), "jax.experimental.layout", "jax.experimental.layout", "DeviceLocalLayout=Layout"
    ),
    *_without_successor((0, 8, 2), "jax.experimental", "saved_input_vjp si_vjp"),
    *_renames((0, 9), "jax.experimental", "jax", "MutableArray=Ref mutable_array=new_ref"),
    *_renames((0, 9), "jax", "jax", "ArrayRef=Ref array_ref=new_ref"),
    *_renames((0, 9), "jax.ref", "jax", "ArrayRef=Ref array_ref=new_ref"),
    *_renames((0, 3, 3), "jax", "jax.stages", "Compiled Lowered"),
    *_renames((0, 3), "jax.lax", "jax.lax", "select_p=select_n_p"),
    *_renames((0, 4, 17), "jax.extend.random", "jax.random", "wrap_key_data"),
    *_renames(
        (0, 7, 2),
        "jax.experimental.pallas.tpu",
        "jax.experimental.pallas.tpu",
        "TPUCompilerParams=CompilerParams TPUMemorySpace=MemorySpace",
    ),
    *_without_successor(
        (0, 3, 16), "jax.profiler", "trace_function", "jax.profiler.annotate_function"
    ),
    *_renames(
        (0, 3, 16),
        "jax.profiler",
        "jax.profiler",
        "TraceContext=TraceAnnotation StepTraceContext=StepTraceAnnotation",
    ),
    Removed("jax.dlpack.to_dlpack", (0, 7)),
    Removed("jax.dlpack.SUPPORTED_DTYPES", (0, 8)),
    Removed("jax.partial", (0, 2, 21), "functools.partial", same=True),
)

CORE = (
    *_renames(
        (0, 6),
        "jax.core",
        "jax.extend.core",
        "ClosedJaxpr Jaxpr JaxprEqn Literal Primitive Token Var jaxpr_as_fun",
    ),
    *_renames(
        (0, 4, 24),
        "jax.core",
        "jax.errors",
        "TracerArrayConversionError TracerIntegerConversionError UnexpectedTracerError",
    ),
    *_renames((0, 7), "jax.core", "jax.errors", "ConcretizationTypeError"),
    *_renames((0, 7), "jax.core", "jax.extend.core.primitives", "call_p closed_call_p"),
    *_renames(
        (0, 10),
        "jax.core",
        "jax.extend.core",
        "AbstractToken TraceTag mapped_aval set_current_trace subjaxprs take_current_trace "
        "unmapped_aval",
    ),
    *_renames(
        (0, 11),
        "jax.core",
        "jax.extend.core",
        "DebugInfo DropVar Effect Effects check_jaxpr concrete_or_error find_top_trace gensym "
        "get_opaque_trace_state jaxprs_in_params new_jaxpr_eqn no_effects "
        "nonempty_axis_env_DO_NOT_USE primal_dtype_to_tangent_dtype "
        "unsafe_am_i_under_a_jit_DO_NOT_USE unsafe_am_i_under_a_vmap_DO_NOT_USE "
        "unsafe_get_axis_names_DO_NOT_USE valid_jaxtype",
    ),
    *_renames((0, 11), "jax.core", "jax.errors", "InconclusiveDimensionOperation JaxprTypeError"),
    *_without_successor((0, 7), "jax.core", "axis_frame", "jax.lax.axis_size"),
    *_renames((0, 10), "jax.core", "jax", "get_aval=typeof"),
    *_without_successor(
        (0, 4, 16),
        "jax.core",
        "canonicalize_dim diff_dim diff_shape dilate_dim dilate_shape divide_shape_sizes "
        "greater_equal_dim greater_equal_shape is_dim is_empty_shape is_special_dim_size "
        "same_referent same_shape_sizes stride_dim stride_shape sum_dim sum_shapes "
        "symbolic_equal_one_of_dim symbolic_equal_shape has_opaque_dtype is_opaque_dtype",
    ),
    *_without_successor(
        (0, 4, 24), "jax.core", "as_hashable_function safe_map safe_zip tuple_delete"
    ),
    *_without_successor((0, 4, 24), "jax.core", "tuple_insert map zip"),
    *_without_successor((0, 4, 27), "jax.core", "token"),
    *_without_successor(
        (0, 4, 31),
        "jax.core",
        "NamedShape as_named_shape canonicalize_shape definitely_equal dimension_as_value "
        "join_named_shapes symbolic_equal_dim",
    ),
    *_without_successor(
        (0, 4, 34),
        "jax.core",
        "pp_aval pp_eqn pp_eqn_rules pp_eqns pp_jaxpr pp_jaxpr_eqn_range pp_jaxpr_skeleton "
        "pp_jaxprs pp_kv_pair pp_kv_pairs pp_var pp_vars",
    ),
    *_without_successor(
        (0, 4, 36),
        "jax.core",
        "ConcreteArray MainTrace NameGatheringSubst Sublevel ThreadLocalState TraceStack "
        "TraceState apply_todos call_bind_with_continuation cur_sublevel "
        "do_subst_axis_names_jaxpr extend_axis_env jaxpr_uses_outfeed map_bind "
        "map_bind_with_continuation new_base_main new_main new_sublevel outfeed_primitives "
        "primitive_uses_outfeed raise_as_much_as_possible stash_axis_env subst_axis_names "
        "subst_axis_names_eqn subst_axis_names_jaxpr subst_axis_names_var thread_local_state "
        "used_axis_names",
    ),
    *_without_successor(
        (0, 4, 38), "jax.core", "check_eqn check_type check_valid_jaxtype non_negative_dim"
    ),
    *_without_successor((0, 5, 1), "jax.core", "JaxprDebugInfo"),
    *_without_successor(
        (0, 6),
        "jax.core",
        "AxisSize EvalTrace InDBIdx InputType MapPrimitive OpaqueTraceState OutDBIdx "
        "TRACER_LEAK_DEBUGGER_WARNING concrete_aval dedup_referents escaped_tracer_error "
        "extend_axis_env_nd full_lower get_referent join_effects lattice_join "
        "leaked_tracer_error maybe_find_leaked_tracers raise_to_shaped "
        "raise_to_shaped_mappings reset_trace_state str_eqn_compact "
        "substitute_vars_in_output_ty typecompat used_axis_names_jaxpr",
    ),
    *_without_successor(
        (0, 7),
        "jax.core",
        "AxisName trace_state_clean get_type typecheck typematch",
    ),
    *_without_successor((0, 8, 2), "jax.core", "DShapedArray UnshapedArray"),
    *_without_successor((0, 10), "jax.core", "call_impl traverse_jaxpr_params"),
    *_without_successor(
        (0, 11),
        "jax.core",
        "CallPrimitive JaxprPpContext JaxprPpSettings OutputType abstract_token "
        "aval_mapping_handlers call concretization_function_error custom_typechecks is_concrete "
        "is_constant_dim is_constant_shape literalable_types no_axis_name trace_ctx",
    ),
    *_without_successor((0, 8), "jax.custom_derivatives", "custom_jvp_call_jaxpr_p"),
    *_without_successor((0, 6, 1), "jax.custom_derivatives", "custom_vjp_call_jaxpr_p"),
    *_without_successor((0, 4, 26), "jax.interpreters.ad", "config source_info_util"),
    *_without_successor((0, 4, 24), "jax.interpreters.ad", "instantiate_zeros_aval"),
    *_without_successor((0, 4, 34), "jax.interpreters.ad", "recast_to_float0 replace_float0s"),
    *_without_successor((0, 4, 36), "jax.interpreters.ad", "CustomJVPException CustomVJPException"),
    *_without_successor((0, 4, 36), "jax.interpreters.ad", "zeros_like_jaxval"),
    *_without_successor((0, 7, 1), "jax.interpreters.ad", "backward_pass_internal unpair_pval"),
    *_without_successor((0, 8, 2), "jax.interpreters.ad", "closed_backward_pass vjp"),
    *_without_successor(
        (0, 9),
        "jax.interpreters.ad",
        "bilinear_transpose call_param_updaters call_transpose call_transpose_param_updaters "
        "custom_lin_p defjvp_zero linear_jvp linear_transpose linear_transpose2 map_transpose "
        "rearrange_binders standard_jvp standard_jvp2 zero_jvp zeros_like_p",
    ),
    *_without_successor((0, 10), "jax.interpreters.ad", "reducing_transposes"),
    *_without_successor((0, 4, 16), "jax.interpreters.batching", "Pile PileAxis PileTy pile_axis"),
    *_without_successor((0, 4, 24), "jax.interpreters.batching", "add_batched zeros_like_batched"),
    *_without_successor((0, 4, 24), "jax.interpreters.batching", "zeros_like_p"),
    *_without_successor((0, 4, 36), "jax.interpreters.batching", "spmd_axis_primitive_batchers"),
    *_without_successor((0, 7, 1), "jax.interpreters.batching", "Zero"),
    *_without_successor(
        (0, 8, 2),
        "jax.interpreters.batching",
        "IndexedAxisSize Jumble JumbleAxis JumbleTy RaggedAxis batch_jaxpr2 jumble_axis",
    ),
    *_without_successor(
        (0, 9),
        "jax.interpreters.batching",
        "Array BatchTrace BatchTracer ZeroIfMapped batch batch_custom_vjp_bwd batch_jaxpr "
        "broadcast_batcher from_elt from_elt_handlers is_vmappable make_iota make_iota_handlers "
        "matchaxis moveaxis reducer_batcher spec_types to_elt to_elt_handlers "
        "vectorized_batcher vmappables vtile",
    ),
    *_without_successor((0, 10, 2), "jax.interpreters.batching", "not_mapped NotMapped"),
    *_renames(
        (0, 7),
        "jax.extend.core.primitives",
        "jax.extend.core.primitives",
        "pjit_p=jit_p",
    ),
    *_renames((0, 7), "jax.experimental.pjit", "jax.extend.core.primitives", "pjit_p=jit_p"),
    *_without_successor((0, 10), "jax.extend.core.primitives", "xla_pmap_p"),
    *_without_successor(
        (0, 6), "jax.interpreters.mlir", "func_dialect hlo xla_computation_to_mlir_module"
    ),
    *_without_successor((0, 8), "jax.interpreters.mlir", "custom_call", "jax.ffi.ffi_call"),
    *_without_successor((0, 7), "jax.interpreters.mlir", "flatten_lowering_ir_args"),
    *_without_successor((0, 8), "jax.interpreters.mlir", "dense_bool_array"),
    *_without_successor((0, 9, 1), "jax.interpreters.mlir", "dense_bool_elements"),
    *_without_successor((0, 10, 1), "jax.interpreters.mlir", "ReplicaAxisContext"),
    *_without_successor(
        (0, 4, 36),
        "jax.interpreters.partial_eval",
        "extend_jaxpr_stack trace_to_jaxpr trace_to_jaxpr_final trace_to_jaxpr_final2 "
        "trace_to_subjaxpr_dynamic trace_to_subjaxpr_dynamic2",
    ),
    *_without_successor(
        (0, 5),
        "jax.interpreters.partial_eval",
        "arg_info_all debug_info debug_info_final result_info sig_info",
    ),
    *_without_successor(
        (0, 8, 2),
        "jax.interpreters.partial_eval",
        "BoundedAxisSize call_padding_rule def_trivial_padding infer_lambda_input_type pad_jaxpr "
        "padding_rules trace_to_jaxpr_dynamic2",
    ),
    *_renames((0, 9), "jax.interpreters.partial_eval", "jax.extend.core", "Jaxpr"),
    *_renames((0, 4, 3), "jax.interpreters.ad", "jax.extend.core", "Literal Primitive"),
    *_renames((0, 4, 3), "jax.interpreters.ad", "jax.core", "Tracer"),
    *_renames((0, 4, 4), "jax.interpreters.batching", "jax.core", "Tracer"),
    *_renames((0, 4, 3), "jax.interpreters.pxla", "jax.core", "ShapedArray"),
    *_renames((0, 4, 8), "jax.interpreters.partial_eval", "jax.core", "ShapedArray Tracer"),
    *_renames(
        (0, 4, 8),
        "jax.interpreters.partial_eval",
        "jax.extend.core",
        "ClosedJaxpr JaxprEqn Literal Primitive Var",
    ),
    *(
        row
        for module, releases in INTERNALS.items()
        for release, listed in releases.items()
        for row in _without_successor(release, module, listed)
    ),
    *_without_successor(
        (0, 9),
        "jax.interpreters.partial_eval",
        "ConstVar DynamicJaxprTrace FreeVar JaxprEqnRecipe JaxprStackFrame JaxprTrace "
        "LambdaBinding TracerAsName call_param_updaters call_partial_eval_custom_rule "
        "call_partial_eval_rules closed_call_partial_eval_custom_rule const_fold_rules "
        "convert_envvars_to_constvars convert_invars_to_constvars custom_staging_rules "
        "forwarding_rules has_effects instantiate_const_at make_jaxpr_effects "
        "move_binders_to_front partial_eval_jaxpr_custom "
        "partial_eval_jaxpr_custom_rule_not_implemented partition_pvals recipe_to_eqn "
        "tracers_to_jaxpr",
    ),
    *_without_successor((0, 8), "jax.errors", "SimplifiedTraceback"),
    *_without_successor((0, 7), "jax.stages", "OutInfo"),
    *_without_successor((0, 9), "jax.experimental", "enable_x64 disable_x64", "jax.enable_x64"),
    *_without_successor((0, 10), "jax.lax", "pvary", "jax.lax.pcast"),
    *_without_successor((0, 10), "jax", "custom_transpose enable_custom_vjp_by_custom_transpose"),
    Removed("jax.spmd_mode", (0, 6, 1)),
    Removed("jax.xla_computation", (0, 4, 34), "jax.jit"),
    Removed("jax.clear_backends", (0, 4, 36), "jax.extend.backend.clear_backends"),
    *_without_successor((0, 3, 16), "jax", "mask shapecheck"),
    *_without_successor((0, 3, 16), "jax", "invertible custom_ivjp"),
    *_without_successor((0, 2, 10), "jax", "custom_transforms defjvp defjvp_all", "jax.custom_jvp"),
    *_without_successor((0, 2, 10), "jax", "defvjp defvjp_all", "jax.custom_vjp"),
    *_without_successor((0, 4, 14), "jax", "curry"),
    Removed("jax.ShapedArray", (0, 4, 14), "jax.core.ShapedArray", same=True),
    *_renames((0, 4, 14), "jax", "jax.interpreters", "partial_eval pxla xla"),
)

# Of flax: `gone` is a release of flax.
FLAX = (
    Removed("flax.optim", (0, 6), "optax"),
    *_renames((0, 6), "flax.optim", "flax.training", "dynamic_scale"),
    *_renames((0, 6), "flax.optim", "flax.training.dynamic_scale", "DynamicScale"),
    Removed("flax.nn", (0, 4), "flax.linen"),
    Removed("flax.deprecated", (0, 4), "flax.linen"),
    *_renames((0, 6, 4), "flax.linen", "flax.linen", "ConvLSTM=ConvLSTMCell"),
    *_without_successor((0, 10, 5), "flax.nnx", "Jit Pmap Remat Scan Vmap"),
)

DELETE = "delete it"
_INTERNAL = "nothing replaces it: it was a part of how JAX works inside"
_AT = "write x.at[i].{}(y)"
_TRACING = "nothing replaces it: the experiment ended"
_NOTES = {
    "jax.device_put_sharded": "place with jax.device_put and a NamedSharding",
    "jax.device_put_replicated": "place with jax.device_put and a NamedSharding",
    "jax.soft_pmap": "nothing replaces it: jax.vmap inside jax.pmap maps more rows than devices",
    "jax.cloud_tpu_init": f"{DELETE}: JAX finds the TPU itself",
    "jax.tools.colab_tpu": f"{DELETE}: JAX finds the TPU itself",
    "jax.config.FLAGS": "use jax.config.update to set an option, jax.config.NAME to read it",
    "jax.util": "copy what you need of it: safe_map, safe_zip, partial and split_list are short",
    "jax.lax_reference": "use NumPy itself",
    "jax.jaxpr_util": "nothing replaces it: walk jaxpr.eqns of jax.make_jaxpr",
    "jax.experimental.loops": "write jax.lax.fori_loop or jax.lax.scan",
    "jax.experimental.host_callback": (
        "use jax.debug.print for id_print, jax.debug.callback for id_tap, "
        "jax.pure_callback for call"
    ),
    "jax.experimental.optix": "use the library optax",
    "jax.experimental.gda_serialization": "use jax.experimental.array_serialization",
    "jax.experimental.pjit.FROM_GDA": f"{DELETE}: jax.jit takes arrays as they are placed",
    "jax.experimental.attrs": "use jax.new_ref for state that functions change",
    "jax.experimental.custom_dce": _TRACING,
    "jax.experimental.control_deps": "write jax.lax.optimization_barrier",
    "jax.experimental.shard_alike": "write jax.lax.with_sharding_constraint",
    "jax.experimental.saved_input_vjp": _TRACING,
    "jax.experimental.si_vjp": _TRACING,
    "jax.experimental.compilation_cache.compilation_cache.is_initialized": (
        "read jax.config.jax_compilation_cache_dir"
    ),
    **{
        f"jax.experimental.compilation_cache.{name}": "set jax_compilation_cache_dir instead"
        for name in ("file_system_cache", "gfile_cache", "cache_interface")
    },
    **{
        f"jax.core.{name}": "nothing replaces it: JAX has had no unit value since then; use None"
        for name in ("AbstractUnit", "Unit", "UnitVar", "abstract_unit", "unit", "unitvar")
    },
    "jax.numpy.NINF": "write -jax.numpy.inf",
    "jax.numpy.NZERO": "write -0.0",
    "jax.numpy.PZERO": "write 0.0",
    "jax.numpy.issubsctype": "write jax.numpy.issubdtype(x.dtype, y.dtype)",
    "jax.ops.index_update": _AT.format("set"),
    "jax.ops.index_add": _AT.format("add"),
    "jax.ops.index_mul": _AT.format("multiply"),
    "jax.ops.index_min": _AT.format("min"),
    "jax.ops.index_max": _AT.format("max"),
    "jax.lax.tie_in": "write its second argument: it has done nothing since JAX 0.2",
    "jax.lax.prod": "write math.prod",
    "jax.lax.pdot": "write jax.lax.psum of jax.lax.dot",
    "jax.lax.xeinsum": "write jax.lax.psum of jax.numpy.einsum",
    "jax.lax.infeed": "nothing replaces it: pass the data as an argument",
    "jax.lax.outfeed": "use jax.experimental.io_callback",
    "jax.dlpack.to_dlpack": "write x.__dlpack__(), or pass the array itself to from_dlpack",
    "jax.dlpack.SUPPORTED_DTYPES": "nothing replaces it: from_dlpack raises for other dtypes",
    "jax.errors.SimplifiedTraceback": f"{DELETE}: JAX filters tracebacks without it",
    "jax.stages.OutInfo": "use jax.ShapeDtypeStruct",
    "jax.custom_transpose": "use jax.custom_derivatives.linear_call",
    "jax.enable_custom_vjp_by_custom_transpose": _TRACING,
    "jax.spmd_mode": f"{DELETE}: arrays of several processes may be used everywhere",
    "jax.mask": _TRACING,
    "jax.shapecheck": _TRACING,
    "jax.invertible": _TRACING,
    "jax.custom_ivjp": _TRACING,
    "jax.curry": "use functools.partial",
    "jax.test_util.JaxTestCase": "use absl.testing.parameterized.TestCase",
    "jax.test_util.JaxTestLoader": "use absl.testing.absltest.TestLoader",
    "jax.test_util.with_config": "set the options with jax.config.update in setUp",
    **{
        f"flax.nnx.{name}": f"write flax.nnx.{name.lower()}"
        for name in ("Jit", "Pmap", "Remat", "Scan", "Vmap")
    },
}

ROWS = (*PLACEMENT, *TREES, *SHARDINGS, *PXLA, *MODULES, *NUMPY, *CORE)


def _with_note(row: Removed) -> Removed:
    return row if row.successor else replace(row, note=_NOTES.get(row.name, _INTERNAL))


PLACEMENT, TREES, SHARDINGS, FLAX = (
    tuple(map(_with_note, rows)) for rows in (PLACEMENT, TREES, SHARDINGS, FLAX)
)
ROWS = tuple(map(_with_note, ROWS))
PXLA, MODULES, NUMPY, CORE = map(_follow_successors, (PXLA, MODULES, NUMPY, CORE))
TABLE = (*PLACEMENT, *TREES, *SHARDINGS, *PXLA, *MODULES, *NUMPY, *CORE)
ALL = (*TABLE, *FLAX)


def is_gone(row: Removed, settings: Settings) -> bool:
    """Whether the JAX or the flax that a project is read for lacks a name."""
    here = settings.usable_flax if row.name.startswith("flax.") else settings.target
    return row.gone <= here


def sentence(row: Removed) -> str:
    """`jax.tree_map was removed in JAX 0.6: use jax.tree.map`."""
    library = "flax" if row.name.startswith("flax.") else "JAX"
    if row.gone == (0,):
        when = "does not exist"
    else:
        when = f"was removed in {library} {'.'.join(map(str, row.gone))}"
    return f"{row.name} {when}: {row.answer}"


def names(rows: tuple[Removed, ...]) -> tuple[str, ...]:
    """The names of the rows, to look for before a file is parsed."""
    return tuple(row.name for row in rows)
