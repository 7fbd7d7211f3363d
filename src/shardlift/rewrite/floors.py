"""The oldest JAX that runs what was written.

Found by running the written programs on the last releases of JAX 0.6 to 0.10, on 0.7.0 and
0.12.0, and what places and reads on 0.4.13, too; `removed_names.toml` has the names.
"""

from collections.abc import Iterator

from shardlift.rewrite.changes import Change
from shardlift.source.model import HelperRequest, Kind, Match, Version
from shardlift.source.removed_names import ALL, CALLS_SINCE, SINCE, spelled_for

TESTED: Version = (0, 10)  # the oldest JAX on which everything that is written is tested
TREE_NAMES: Version = (0, 4, 25)  # jax.tree.map and its like
SITES: Version = (0, 7)  # jax.P and jax.NamedSharding
_HELPERS: dict[str, Version] = {
    **dict.fromkeys(("spmd_map", "per_row", "per_row_of"), SITES),
    "shard_map_per_device": SITES,
    **dict.fromkeys(("device_put_sharded", "device_put_replicated", "replicate"), (0, 4, 13)),
    **dict.fromkeys(("prefetch_to_device", "first_row", "unreplicate"), (0, 4, 13)),
    **dict.fromkeys(("safe_map", "safe_zip", "Adam"), (0,)),
}
_Made = Change | Match  # what is written, or may be
_SUCCESSORS = {row.name: row for row in ALL}


def floors(
    changes: tuple[_Made, ...], helpers: frozenset[HelperRequest], oldest: Version | None = None
) -> Iterator[Version]:
    """What each change of a file, and each helper, needs; names are for the oldest JAX, too."""
    for change in changes:
        row = _SUCCESSORS.get(change.name)
        if change.kind in (Kind.SITE, Kind.VALUE):
            yield SITES
        elif change.kind is Kind.DEVICE_AXIS:
            yield TESTED
        elif (function := change.name.partition("(")[0]) in CALLS_SINCE:
            yield CALLS_SINCE[function]
        elif row is not None and (successor := change.successor or row.successor):
            yield _of_name(spelled_for(successor, oldest), row.gone)
    yield from (_HELPERS.get(request.name, TESTED) for request in helpers)


def successor_of(change: Change) -> str:
    """The name that a change writes for a removed one; empty if it writes something else."""
    row = _SUCCESSORS.get(change.name)
    usual = row.successor if row is not None and change.kind is Kind.NAME else ""
    return change.successor or usual


def _of_name(successor: str, gone: Version) -> Version:
    """A name that is in no list, and came late, came with the release that removed the old one."""
    known = [name for name in SINCE if successor.startswith(name)]
    if not known:
        return (0,)
    floor = SINCE[max(known, key=len)]
    late = successor.startswith("jax.extend.core.") and gone >= TESTED
    return max(floor, TESTED) if late else floor
