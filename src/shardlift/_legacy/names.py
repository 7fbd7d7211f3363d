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
    "Removed",
    "Version",
    "resolve",
    "rows",
    "version",
]

# Private paths are text here, not in `_compat`, which imports JAX: a program chooses when JAX is
# imported. They are looked up only for programs that ask for a name which lived there.
_OURS = "shardlift._legacy"


def _ours(file: str, parent: str, names: str) -> dict[str, str]:
    return {f"{parent}.{name}": f"{_OURS}.{file}.{name}" for name in names.split()}


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
    "jax.lib.xla_extension.DeviceArray": "jax.Array",
    "jaxlib.xla_extension.DeviceArray": "jax.Array",
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
        yield Removed(name, MODULES[name.rpartition(".")[0]][0], _ADAPTED[name])


def resolve(path: str) -> Any:
    """The object at a dotted path; imports modules as needed.

    >>> resolve("collections.abc.Iterable").__name__
    'Iterable'
    """
    base, _, name = path.rpartition(".")
    if not base:
        return importlib.import_module(path)
    # The attribute first: jax.config is an object in JAX, and a restored module here.
    value = getattr(resolve(base), name, None)
    return importlib.import_module(path) if value is None else value
