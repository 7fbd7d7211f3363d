"""Placing values on devices: what JAX 0.10 removed, and what of flax breaks with it or is slow.

`jax.device_put_sharded` and `device_put_replicated` are gone. flax's `replicate` and
`prefetch_to_device` called them up to flax 0.12.6; since then they stack all copies on one device
first. flax's `shard`, `shard_prng_key` and `pad_shard_unpad`, and reshapes by hand, work as they
are and are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlift.codemod.file import File
from shardlift.codemod.migration.rewrite import Goal, Refusal, Rewrite
from shardlift.codemod.migration.substitutes import substituted

_PLACING = {
    "jax.device_put_sharded": "device_put_sharded",
    "jax.device_put_replicated": "device_put_replicated",
    "flax.jax_utils.replicate": "replicate",
    "flax.jax_utils.prefetch_to_device": "prefetch_to_device",
}


def rewrite(file: File, goal: Goal) -> Iterator[Rewrite | Refusal]:
    """Every use of these four."""
    yield from substituted(file, goal, _PLACING)
