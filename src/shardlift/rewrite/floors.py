"""The oldest JAX that runs what was written.

Found by running the written programs on the last releases of JAX 0.6 to 0.10, on 0.7.0 and
0.12.0, and what places and reads on 0.4.25, too; of names, by looking for them in every release
from 0.2.28 on.
"""

from collections.abc import Iterator

from shardlift.rewrite.changes import Change
from shardlift.source.model import HelperRequest, Kind, Version
from shardlift.source.removed_names import ALL, KEYWORDS_SINCE, spelled_for

TESTED: Version = (0, 10)  # the oldest JAX on which everything that is written is tested
TREE_NAMES: Version = (0, 4, 25)  # jax.tree.map and its like
SITES: Version = (0, 7)  # jax.P and jax.NamedSharding
_HELPERS: dict[str, Version] = {
    **dict.fromkeys(("spmd_map", "per_row", "per_row_in", "per_row_of"), SITES),
    "shard_map_per_device": SITES,
    **dict.fromkeys(("device_put_sharded", "device_put_replicated", "replicate"), (0, 4, 25)),
    **dict.fromkeys(("prefetch_to_device", "first_row", "unreplicate"), (0, 4, 25)),
    **dict.fromkeys(("safe_map", "safe_zip"), (0,)),
}
# The first release that has a successor; all others are as old as what they replace.
_NAMES: dict[str, Version] = {
    **dict.fromkeys(("jax.Array", "jax.lax.with_sharding_constraint"), (0, 4, 1)),
    "jax.sharding.": (0, 4, 1),
    "jax.Device": (0, 4, 6),
    "jax.experimental.compilation_cache.compilation_cache.set_cache_dir": (0, 4, 24),
    "jax.tree.": TREE_NAMES,
    "jax.numpy.trapezoid": (0, 4, 26),
    "jax.experimental.layout.": (0, 4, 27),
    "jax.extend.core.": (0, 4, 27),
    "jax.extend.backend.get_backend": (0, 4, 33),
    "jax.errors.JaxRuntimeError": (0, 4, 34),
    "jax.ffi": (0, 5),
    "jax.typeof": (0, 5, 3),
    "jax.lax.axis_size": (0, 6, 1),
    "jax.extend.backend.get_compile_options": (0, 7),
    "jax.extend.core.primitives.jit_p": (0, 7),
    "jax.sharding.auto_axes": (0, 7),
    "jax.sharding.explicit_axes": (0, 7),
    "jax.sharding.reshard": (0, 7),
    "jax.set_mesh": (0, 7, 1),
    "jax.Ref": (0, 7, 2),
    "jax.new_ref": (0, 7, 2),
    "jax.enable_x64": (0, 8),
    "jax.lax.pcast": (0, 8, 2),
    "jax.extend.core.mapped_aval": (0, 9),
    "jax.extend.core.unmapped_aval": (0, 9),
}
_SUCCESSORS = {row.name: row for row in ALL}


def floors(
    changes: tuple[Change, ...], helpers: frozenset[HelperRequest], oldest: Version | None = None
) -> Iterator[Version]:
    """What each change of a file, and each helper, needs; names are for the oldest JAX, too."""
    for change in changes:
        row = _SUCCESSORS.get(change.name)
        if change.kind in (Kind.SITE, Kind.VALUE):
            yield SITES
        elif change.kind is Kind.DEVICE_AXIS:
            yield TESTED
        elif (function := change.name.partition("(")[0]) in KEYWORDS_SINCE:
            yield KEYWORDS_SINCE[function]
        elif row is not None and row.successor:
            yield _of_name(spelled_for(change.successor or row.successor, oldest), row.gone)
    yield from (_HELPERS.get(request.name, TESTED) for request in helpers)


def successor_of(change: Change) -> str:
    """The name that a change writes for a removed one; empty if it writes something else."""
    row = _SUCCESSORS.get(change.name)
    usual = row.successor if row is not None and change.kind is Kind.NAME else ""
    return change.successor or usual


def _of_name(successor: str, gone: Version) -> Version:
    """A name that is in no list, and came late, came with the release that removed the old one."""
    known = [name for name in _NAMES if successor.startswith(name)]
    if not known:
        return (0,)
    floor = _NAMES[max(known, key=len)]
    late = successor.startswith("jax.extend.core.") and gone >= TESTED
    return max(floor, TESTED) if late else floor
