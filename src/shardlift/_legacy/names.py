"""The table of restored names: each with the release that removed it, and its successor.

Most rows come from the linter (`shardlift.source.removed_names`), and a test checks them against
the installed JAX. Rows are added here where the linter only describes the successor and this
package has an adapter for it, and where JAX removed a whole module.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from shardlift.source.model import Version, version
from shardlift.source.removed_names import ROWS, Removed

__all__ = [
    "CHANGED",
    "HOMES",
    "MODULES",
    "RANDOM_KEYS",
    "TWINS",
    "Removed",
    "Version",
    "resolve",
    "rows",
    "version",
]

# Private paths are text here, not in `_compat`, which imports JAX: a program chooses when JAX is
# imported. They are looked up only for programs that ask for a name which lived there.
_OURS = "shardlift._legacy"
_LONG_AGO: Version = (0, 4)  # of a name that the linter's table has not got


def _ours(file: str, parent: str, names: str) -> dict[str, str]:
    return {f"{parent}.{name}": f"{_OURS}.{file}.{name}" for name in names.split()}


def _runtime_types(module: str) -> dict[str, str]:
    arrays = "Buffer DeviceArray DeviceArrayBase"
    return {
        f"{module}.PmapFunction": f"{_OURS}.pmaps.PmapFunction",
        f"{module}.CompiledFunction": "jaxlib._jax.PjitFunction",
        **{f"{module}.{name}": "jax.Array" for name in arrays.split()},
        **_ours("runtime", module, "CpuDevice GpuDevice TpuDevice"),
    }


# Name -> its replacement. The release that removed it is in the linter's table, or in MODULES.
_ADAPTED = {
    "jax.device_put_sharded": "shardlift.arrays.device_put_sharded",
    "jax.device_put_replicated": "shardlift.arrays.device_put_replicated",
    **_ours("sharding", "jax.sharding", "PmapSharding"),
    **_ours(
        "sharding",
        "jax.interpreters.pxla",
        "Chunked NoSharding Replicated ShardedAxis ShardingSpec Unstacked spec_to_indices "
        "ShardedDeviceArray make_sharded_device_array",
    ),
    **_ours("adapters", "jax.interpreters.pxla", "xla_pmap_p"),
    **_ours("adapters", "jax.ops", "index_update index_add index_mul index_min index_max index"),
    **_ours(
        "adapters",
        "jax.core",
        "axis_frame full_lower raise_to_shaped ConcreteArray unsafe_get_axis_names_DO_NOT_USE "
        "unsafe_am_i_under_a_jit_DO_NOT_USE",
    ),
    **_ours("adapters", "jax.experimental", "enable_x64 disable_x64"),
    **_ours("adapters", "jax.lax", "pvary tie_in"),
    **_ours("adapters", "jax.numpy", "msort NINF NZERO PZERO"),
    **_ours("adapters", "jax.tree_util", "register_keypaths"),
    "jax.random.default_prng_impl": "jax._src.random.default_prng_impl",
    "jax.tree_util.AttributeKeyPathEntry": "jax.tree_util.GetAttrKey",
    "jax.tree_util.GetitemKeyPathEntry": "jax.tree_util.DictKey",
    **_ours("adapters", "jax.random", "shuffle"),
    **_ours("adapters", "jax.dlpack", "to_dlpack"),
    **_ours("adapters", "jax.linear_util", "wrap_init"),
    **_ours("adapters", "jax.experimental.host_callback", "call id_print id_tap barrier_wait"),
    **_ours("positional", "jax.sharding", "PositionalSharding"),
    "jax.sharding.GSPMDSharding": "jax._src.sharding_impls.GSPMDSharding",
    "jax.sharding.OpShardingSharding": "jax._src.sharding_impls.GSPMDSharding",
    **_ours(
        "runtime",
        "jax.core",
        "CallPrimitive MapPrimitive cur_sublevel thread_local_state extract_call_jaxpr",
    ),
    **_ours("runtime", "jax", "xla_computation spmd_mode soft_pmap"),
    **_ours("runtime", "jax.random", "threefry2x32_key rbg_key unsafe_rbg_key"),
    **_ours("runtime", "jax.tools.colab_tpu", "setup_tpu"),
    **_ours("runtime", "jax.cloud_tpu_init", "cloud_tpu_init"),
    **_ours("adapters", "jax.extend.core.primitives", "xla_pmap_p"),
    **_ours("adapters", "jax.interpreters.batching", "not_mapped"),
    "jax.core.get_aval": "jax.typeof",
    "jax.clear_backends": "jax.extend.backend.clear_backends",
    "jax.sharding.XLACompatibleSharding": "jax.sharding.Sharding",
    "jax.interpreters.xla.DeviceArray": "jax.Array",
    "jax.interpreters.xla.xb": "jax._src.xla_bridge",
    "jax.interpreters.xla.xc": "jaxlib.xla_client",
    "jax.interpreters.xla.xe": "jaxlib._jax",
    "jax.interpreters.xla.abstractify": "jax.typeof",
    "jax.interpreters.xla.pytype_aval_mappings": "jax._src.core.pytype_aval_mappings",
    "jax.interpreters.xla.canonicalize_dtype": "jax.dtypes.canonicalize_dtype",
    "jax.experimental.maps.Mesh": "jax.sharding.Mesh",
    "jax.experimental.maps.thread_resources": "jax._src.mesh.thread_resources",
    "jax.config.config": "jax.config",
    "jax.nn.normalize": "jax.nn.standardize",
    "jax.interpreters.xla._DeviceArray": "jax.Array",
    "jax._src.device_array.DeviceArray": "jax.Array",
    "jax._src.api._infer_argnums_and_argnames": "jax._src.api_util.infer_argnums_and_argnames",
    "jax.experimental.maps.mesh": "jax.sharding.Mesh",
    "jax.experimental.global_device_array.GlobalDeviceArray": "jax.Array",
    "jax.experimental.x64_context.enable_x64": f"{_OURS}.adapters.enable_x64",
    "jax.experimental.x64_context.disable_x64": f"{_OURS}.adapters.disable_x64",
    **_runtime_types("jaxlib._jax"),
    **_runtime_types("jaxlib.xla_extension"),
    **_runtime_types("jax.lib.xla_extension"),
}

# Removed modules: the release, and the module that has their contents now, if there is one.
MODULES: dict[str, tuple[Version, str]] = {
    "jax.config": ((0, 4, 25), ""),
    "jax.experimental.maps": ((0, 4, 31), ""),
    "jax.experimental.stax": ((0, 3, 16), "jax.example_libraries.stax"),
    "jax.experimental.optimizers": ((0, 3, 16), "jax.example_libraries.optimizers"),
    "jax.experimental.host_callback": ((0, 8), ""),
    "jax.experimental.shard": ((0, 7), "jax.sharding"),
    "jax.lib.xla_bridge": ((0, 9), "jax._src.xla_bridge"),
    "jax.lib.xla_client": ((0, 9), "jaxlib.xla_client"),
    "jax.lib.xla_extension": ((0, 9), "jaxlib._jax"),
    "jaxlib.xla_extension": ((0, 6, 1), "jaxlib._jax"),
    "jax.linear_util": ((0, 4, 24), "jax.extend.linear_util"),
    "jax.abstract_arrays": ((0, 4, 17), "jax.core"),
    "jax.prng": ((0, 4, 24), "jax.extend.random"),
    "jax.api": ((0, 2, 21), "jax"),
    "jax.experimental.array": ((0, 3, 19), "jax"),
    "jax.util": ((0, 8), "jax._src.util"),
    "jax.ad_util": ((0, 3), "jax._src.ad_util"),
    "jax.cloud_tpu_init": ((0, 11), ""),
    "jax.tools.colab_tpu": ((0, 10), ""),
    "jax.experimental.array_api": ((0, 5), "jax.numpy"),
    "jax.experimental.export": ((0, 4, 36), "jax.export"),
    "jax.experimental.gda_serialization": ((0, 4, 24), ""),
    "jax.experimental.gda_serialization.serialization": (
        (0, 4, 24),
        "jax.experimental.array_serialization.serialization",
    ),
    "jax.experimental.global_device_array": ((0, 4, 7), "jax"),
    "jax.experimental.x64_context": ((0, 10), ""),
    "jax._src.device_array": ((0, 4, 10), ""),
    "jax._src.prng": ((0, 10), "jax._src.random.prng"),
}

# Public modules, and the private module whose names each exported until 0.4.x or later: names that
# they no longer export are looked up there.
HOMES = {
    "jax.core": "jax._src.core",
    "jax.api_util": "jax._src.api_util",
    "jax.interpreters.ad": "jax._src.interpreters.ad",
    "jax.interpreters.batching": "jax._src.interpreters.batching",
    "jax.interpreters.mlir": "jax._src.interpreters.mlir",
    "jax.interpreters.partial_eval": "jax._src.interpreters.partial_eval",
    "jax.interpreters.pxla": "jax._src.interpreters.pxla",
}

# Private modules, and the public module that has, or had, the same names.
TWINS = {
    "jax.api": "jax._src.api",
    "jax._src.abstract_arrays": "jax.core",
    "jax._src.api": "jax",
    "jax._src.core": "jax.core",
    "jax._src.dtypes": "jax.dtypes",
    "jax._src.interpreters.ad": "jax.interpreters.ad",
    "jax._src.interpreters.batching": "jax.interpreters.batching",
    "jax._src.interpreters.mlir": "jax.interpreters.mlir",
    "jax._src.interpreters.partial_eval": "jax.interpreters.partial_eval",
    "jax._src.interpreters.pxla": "jax.interpreters.pxla",
    "jax._src.interpreters.xla": "jax.interpreters.xla",
    "jax._src.lax.control_flow": "jax.lax",
    "jax._src.lax.lax": "jax.lax",
    "jax._src.lax.parallel": "jax.lax",
    "jax._src.lib": "jaxlib",
    "jax._src.lib.xla_bridge": "jax._src.xla_bridge",
    "jax._src.numpy.lax_numpy": "jax.numpy",
    "jax._src.pjit": "jax.experimental.pjit",
    "jax._src.random": "jax.random",
    "jax._src.sharding": "jax.sharding",
    "jax._src.sharding_impls": "jax.sharding",
    "jax._src.tree_util": "jax.tree_util",
    "jax._src.util": "jax.util",
}

# Names whose meaning changed without an error, and the release: `meanings` restores the old one.
RANDOM_KEYS = ("jax.random.PRNGKey", "jax.random.key")
CHANGED: dict[str, Version] = {
    "jax.Array.addressable_data": (0, 4, 34),
    "jax.Array.addressable_shards": (0, 4, 34),
    "jax.experimental.multihost_utils.process_allgather": (0, 5),
    **dict.fromkeys(RANDOM_KEYS, (0, 5)),
    "jax.make_mesh": (0, 9),
    "jax.sharding.PartitionSpec == tuple": (0, 10),
    "jax.numpy.empty": (0, 11),
    "jax.numpy.empty_like": (0, 11),
    "jax.sharding.AbstractMesh": (0, 12),
}


def rows() -> Iterator[Removed]:
    """Every restored name with the dotted path of its replacement."""
    for row in ROWS:
        if row.name in _ADAPTED:
            yield Removed(row.name, row.gone, _ADAPTED[row.name])
        elif row.same and row.name not in MODULES and row.gone != (0,):
            yield row
    in_removed_modules = _ADAPTED.keys() - {row.name for row in ROWS}
    for name in sorted(in_removed_modules):
        home = MODULES.get(name.rpartition(".")[0])
        yield Removed(name, home[0] if home else _LONG_AGO, _ADAPTED[name])


def resolve(path: str) -> Any:
    """The object at a dotted path; imports modules as needed.

    >>> resolve("collections.abc.Iterable").__name__
    'Iterable'
    """
    base, _, name = path.rpartition(".")
    if not base:
        return importlib.import_module(path)
    # The attribute first: jax.config is an object in JAX, and a restored module here.
    owner = resolve(base)
    return getattr(owner, name) if hasattr(owner, name) else importlib.import_module(path)
