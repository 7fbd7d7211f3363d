"""Names inside JAX that programs and libraries imported all the same, and that are removed.

They have no successor. Found by reading the source of every release from 0.2.28 to 0.12.0: a name
is public if neither it nor its module begins with an underscore. Left out are

- modules and functions that a module imports for its own use: `xla.xc`, `ad.safe_map`, `core.np`;
- what JAX has for its own tests, examples and tools;
- kernels and converters: Mosaic, Pallas, sparse arrays, checkify, jax2tf.
"""

from __future__ import annotations

from shardlift.source.model import Version

# Module -> the release that removed them -> names.
INTERNALS: dict[str, dict[Version, str]] = {
    "jax": {
        (0, 5, 3): "get_ty",
        (0, 10, 2): "custom_remat",
    },
    "jax.core": {
        (0, 3): "pp_eqn_compact",
        (0, 3, 10): "AbstractUnit Unit",
        (0, 3, 14): "check_call check_map",
        (0, 3, 15): "AxisSizeForJaxprTracingSpec AxisSizeForJaxprType AxisSizeForTracing",
        (0, 3, 19): (
            "aval_eltype aval_has_custom_eltype custom_eltypes eltype has_custom_eltype "
            "is_custom_eltype"
        ),
        (0, 3, 22): "AbstractBInt BInt BIntDimensionHandler PaddedArray",
        (0, 3, 24): "call_bind",
        (0, 3, 25): "named_call_p",
        (0, 4, 3): (
            "UnitVar abstract_unit eval_jaxpr_eqn extract_call_jaxpr initial_to_final_param_rules "
            "unit unitvar"
        ),
        (0, 4, 4): "Bot aval_method aval_property axis_substitution_rules bint bot",
        (0, 4, 5): (
            "AvalMapHandlerPair AxisEnvFrame AxisPrimitive AxisSubst ClosedCallPrimitive "
            "CustomPpEqnRule DArray DArrayDimHandler DBIdx DConcreteArray DimensionHandler "
            "DuplicateAxisNameError ordered_effects"
        ),
        (0, 4, 11): "OpaqueDType opaque_dtypes",
        (0, 4, 29): "DimSize Shape",
        (0, 4, 36): "process_env_traces_call process_env_traces_map",
        (0, 4, 38): "unsafe_get_current_trace_DO_NOT_USE",
    },
    "jax.experimental": {
        (0, 11, 1): "cur_qdd",
    },
    "jax.experimental.array_serialization.serialization": {
        (0, 4, 35): "DLL",
        (0, 6, 1): "BarrierTimeoutException estimate_read_memory_footprint",
        (0, 6, 2): "Layout",
    },
    "jax.experimental.compilation_cache.compilation_cache": {
        (0, 4, 9): (
            "extra_flag_prefixes_to_include_in_cache_key get_cache_key get_executable "
            "put_executable"
        ),
    },
    "jax.experimental.layout": {
        (0, 4, 26): "SpecifiedLayout",
        (0, 4, 27): "AUTO",
        (0, 6, 1): "with_dll_constraint",
    },
    "jax.experimental.pjit": {
        (0, 3, 2): "gda_mesh_axes_to_canonicalized_parsed_pspec",
        (0, 3, 5): "parse_op_sharding",
        (0, 3, 15): "get_aval_sharding_proto",
        (0, 3, 22): "PjitCompiled PjitLowered",
        (0, 4, 2): (
            "CanonicalizedParsedPartitionSpec CompiledCallParams MeshSharding "
            "MeshShardingMinusUnspecified PjitSharding PjitShardingMinusUnspecified PytreeLeaf "
            "REPLICATED SameDeviceAssignmentTuple SpecSync explode_superdims "
            "flatten_axis_resources get_unconstrained_dims global_to_local local_to_global "
            "pjit_check_aval_sharding sharding_constraint_p strides_for_sizes "
            "to_op_sharding_sharding unflatten_array unflatten_superdims"
        ),
        (0, 4, 16): "hashable_pytree",
    },
    "jax.experimental.serialize_executable": {
        (0, 4, 7): "compile_and_serialize load_compiled",
    },
    "jax.experimental.shard_map": {
        (0, 4, 16): "register_rule register_standard",
        (0, 4, 36): "process_env_traces",
        (0, 5, 1): "sharding_constraint_p",
        (0, 6): "get_replication pbroadcast pbroadcast_p psum2_p",
        (0, 6, 1): (
            "AxisNames JaxType MaybeTracer NoFail RepType RewriteTrace RewriteTracer "
            "ShardMapPrimitive ShardMapTrace ShardMapTracer SpecErrorType Tracer Val eager_rules "
            "get_mesh_from_args no_fail pvary pvary_p register_check register_norewrite "
            "register_reduction_collective register_rewrite register_standard_check "
            "register_standard_collective register_standard_rewrite shard_map_p typeof"
        ),
        (0, 8): "AxisName Specs",
    },
    "jax.extend.backend": {
        (0, 7): "add_clear_backends_callback",
    },
    "jax.extend.core": {
        (0, 11, 1): "CallPrimitive call_impl",
    },
    "jax.extend.core.primitives": {
        (0, 6): "random_gamma_grad_p",
        (0, 6, 1): "custom_jvp_call_jaxpr_p custom_vjp_call_jaxpr_p",
        (0, 7): "infeed_p outfeed_p",
        (0, 7, 1): "zeros_like_p",
    },
    "jax.extend.random": {
        (0, 4, 20): "PRNGImpl",
    },
    "jax.interpreters.ad": {
        (0, 3, 8): "ignore_consts",
        (0, 3, 17): "remat_transpose",
        (0, 4, 3): "Trace raise_to_shaped",
        (0, 9): (
            "f_jvp_traceable jvp_subtrace jvp_subtrace_aux jvpfun nonzero_outputs "
            "nonzero_tangent_outputs traceable"
        ),
    },
    "jax.interpreters.batching": {
        (0, 4, 4): "Trace add_jaxvals add_jaxvals_p raise_to_shaped zeros_like_jaxval",
        (0, 4, 12): "ConcatAxis reassemble_concat_axes segment_sum unpack_concat_axes",
        (0, 9): (
            "AxisSize BatchingRule Elt FromEltHandler GetIdx MakeIotaHandler MapSpec ToEltHandler "
            "Vmappable Zeros batch_custom_jvp_subtrace flatten_fun_for_vmap"
        ),
    },
    "jax.interpreters.mlir": {
        (0, 3, 8): "FuncOp FuncOpType",
        (0, 3, 25): "NameStack",
        (0, 4, 2): (
            "compare_mhlo convert_mhlo max_mhlo merge_mhlo_modules min_mhlo "
            "xla_computation_to_mhlo_module"
        ),
        (0, 4, 3): "DimPolyEvaluator",
        (0, 4, 4): (
            "add_jaxvals_lowering broadcast_in_dim build_xla_computation_helper cache_lowering "
            "compare_hlo convert_hlo create_token delegate_lowering dummy_token dummy_token_type "
            "dynamic_slice dynamic_update_slice eval_dynamic_shape full_like_aval "
            "get_constant_handler max_hlo min_hlo multi_broadcast_in_dim pad receive_from_host "
            "reshape send_to_host set_sharding sharded_aval slice_op wrap_singleton_ir_values "
            "wrap_with_full_to_shard_op wrap_with_shard_to_full_op wrap_with_sharding_op "
            "xla_fallback_lowering zeros_like_lowering"
        ),
        (0, 4, 9): "DimExprEvaluator",
        (0, 4, 29): "dense_int_array_v6",
    },
    "jax.interpreters.partial_eval": {
        (0, 3, 1): "count_outputs",
        (0, 3, 8): "partial_eval_to_jaxpr_dynamic partial_eval_wrapper",
        (0, 3, 14): "Bound",
        (0, 3, 17): "remat_call remat_call_p",
        (0, 3, 24): "Zero",
        (0, 4, 4): "WrapperForWeakRef trace_to_subjaxpr_dynamic2_memoized",
        (0, 4, 6): "arg_info_flattened arg_info_pytree",
        (0, 4, 8): (
            "AvalId ConcreteArray ConstId DBIdx DShapedArray InDBIdx InputType OutDBIdx "
            "OutputType Trace get_referent partial_eval_jaxpr raise_to_shaped"
        ),
        (0, 4, 14): "DimensionHandlerTracer",
        (0, 4, 34): "trace_to_subjaxpr_nounits_dyn",
        (0, 4, 36): "trace_to_subjaxpr",
        (0, 5): "DebugInfo",
        (0, 5, 1): "tracing_debug_info tracing_debug_info_final",
        (0, 6): "trivial_ctx",
        (0, 9): (
            "AbstractedAxesSpec AbstractedAxisName Const ConstFoldRule DCERule ForwardingRule "
            "JaxprTracerRecipe ParamsUpdater PartialEvalCustomResult PartialEvalCustomRule "
            "ResAvalUpdater TracerId partial_eval_wrapper_nounits trace_to_subjaxpr_nounits "
            "trace_to_subjaxpr_nounits_fwd"
        ),
    },
    "jax.interpreters.pxla": {
        (0, 3, 1): "execute_replicated",
        (0, 3, 2): "AxisResource",
        (0, 3, 14): "ArrayMappingOrAuto",
        (0, 3, 17): "should_tuple_args",
        (0, 4, 1): "maybe_cached_property use_cpp_class use_cpp_method",
        (0, 4, 2): "InputsHandlerMode",
        (0, 4, 3): (
            "ConcreteArray check_multihost_collective_allowlist sharding_spec_indices "
            "sharding_spec_mesh_shape sharding_spec_repr"
        ),
        (0, 4, 5): "new_name_stack",
        (0, 4, 7): (
            "EMPTY_ENV OutputType ResourceAxisName ResourceEnv ShardedDeviceArrayBase "
            "sda_array_result_handler show_axes"
        ),
        (0, 4, 9): (
            "DynamicAxisEnv DynamicAxisEnvFrame OrderedDictType PartitionInfo "
            "PartitionsOrReplicated find_partitions get_global_aval get_local_aval "
            "get_num_partitions partitioned_sharding_spec reconcile_num_partitions"
        ),
        (0, 4, 16): (
            "AvalDimSharding EmapInfo ExecuteReplicated InputsHandler MapTrace MeshDimAssignment "
            "OpShardingType ParallelCallableInfo PmapComputation PxlaResultHandler ReplicaInfo "
            "ResultsHandler SPMDBatchTrace ShardInfo TileManual TileVectorize TilingMethod "
            "UnloadedMeshExecutable UnloadedPmapExecutable WeakRefList array_types "
            "custom_resource_typing_rules full_to_shard_p local_avals_to_results_handler "
            "local_result_handlers multi_host_supported_collectives new_mesh_sharding_specs "
            "shard_aval_handlers shard_to_full_p spmd_primitive_batchers vtile_by_mesh "
            "vtile_manual xla_pmap_impl_lazy"
        ),
    },
    "jax.interpreters.xla": {
        (0, 3, 5): "lower_jaxpr_to_xla_module",
        (0, 3, 8): (
            "add_jaxvals_translation_rule call_translations flatten_shape jaxpr_subcomp "
            "pyval_to_ir_constant pyval_to_ir_constants register_constant_handler set_sharding "
            "set_sharding_proto set_up_aliases zeros_like_translation_rule"
        ),
        (0, 3, 22): "XlaExecutable",
        (0, 4, 1): "array_types make_shaped_array",
        (0, 4, 3): (
            "numpy_scalar_types str_eqn_compact tuple_sharding_proto with_sharding "
            "with_sharding_proto"
        ),
        (0, 4, 4): "lower_fun",
        (0, 4, 5): (
            "Shape SpatialSharding XlaBuilder XlaLoadedExecutable XlaShape aval_to_xla_shapes "
            "axis_read dtype_to_primitive_type extend_axis_env extend_name_stack "
            "jaxpr_collectives make_op_metadata new_name_stack primitive_subcomputation"
        ),
        (0, 4, 7): "xla_call",
        (0, 4, 9): "make_device_array",
        (0, 4, 16): (
            "check_backend_matches parameter register_initial_style_primitive sharding_to_proto "
            "xla_shape_handlers"
        ),
    },
    "jax.lax": {
        (0, 3, 22): "make_bint",
        (0, 4, 24): (
            "naryop naryop_dtype_rule standard_abstract_eval standard_naryop standard_primitive "
            "standard_unop unop unop_dtype_rule"
        ),
        (0, 4, 35): "DotAlgorithmLike DotTransposeAlgorithmLike",
        (0, 4, 36): "scan_bind",
        (0, 8, 2): (
            "all_gather_invariant all_gather_reduced preduced unreduced_psum unreduced_psum_scatter"
        ),
        (0, 10): "all_gather_done all_gather_start",
        (0, 11, 1): "dce_sink_p",
    },
    "jax.monitoring": {
        (0, 4, 18): "register_event_listener_with_kwargs",
    },
    "jax.stages": {
        (0, 4, 28): "Specialized",
    },
}
