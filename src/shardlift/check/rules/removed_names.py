"""Names that JAX and flax no longer have: one rule for each group of `removed_names.toml`."""

from __future__ import annotations

from functools import partial
from typing import Any

from shardlift.check.renames import gone
from shardlift.source import removed_names
from shardlift.source.model import CHANGELOG, GUIDE, Kind, Level, Rule

_DEFAULTS: dict[str, Any] = {
    "advice": "Write what the message names.",
    "reference": CHANGELOG,
    "rewritten_as": frozenset({Kind.NAME}),
}


def _rule(rows: tuple[removed_names.Removed, ...], why: str = "", **rest: Any) -> Rule:
    visit = partial(gone, rows=rows, why=why)
    names = removed_names.names(rows)
    return Rule(level=Level.BROKEN, names=names, visit=visit, **{**_DEFAULTS, **rest})


RULES = (
    _rule(
        removed_names.PLACEMENT,
        code="SL101",
        summary="device_put_sharded or device_put_replicated, gone since JAX 0.10",
        advice="Place with jax.device_put(x, NamedSharding(mesh, P(...))); P() for replicas.",
        reference=f"{GUIDE}#drop-in-replacements",
        since=(0, 10),
        rewritten_as=frozenset({Kind.PLACEMENT}),
    ),
    _rule(
        removed_names.SHARDINGS,
        code="SL102",
        summary="PmapSharding or another sharding name that is gone",
        advice="Use jax.sharding.NamedSharding(mesh, PartitionSpec(...)).",
        reference=f"{GUIDE}#shardings",
    ),
    _rule(
        removed_names.PXLA,
        why="it belonged to the old pmap",
        code="SL103",
        summary="an internal name of the old pmap",
        advice="Use jax.Array, .addressable_shards and NamedSharding; there is no other successor.",
    ),
    _rule(
        removed_names.TREES,
        code="SL105",
        summary="jax.tree_map and its family, gone since JAX 0.6",
        advice="Use jax.tree.map and its family.",
    ),
    _rule(
        (*removed_names.MODULES, *removed_names.FLAX),
        code="SL107",
        summary="a module of JAX or flax that is gone",
    ),
    _rule(
        removed_names.NUMPY,
        code="SL108",
        summary="a name of jax.numpy, jax.random or jax.ops that is gone",
    ),
    _rule(
        removed_names.CORE,
        code="SL109",
        summary="a name of jax.core that is gone or has moved to jax.extend.core",
    ),
)
