"""Placing arrays on devices and reading them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlift._lazy import lazy

if TYPE_CHECKING:
    from shardlift.arrays.batches import pad_shard_unpad as pad_shard_unpad
    from shardlift.arrays.batches import prefetch_to_device as prefetch_to_device
    from shardlift.arrays.batches import shard as shard
    from shardlift.arrays.placing import device_put_replicated as device_put_replicated
    from shardlift.arrays.placing import device_put_sharded as device_put_sharded
    from shardlift.arrays.replicas import differing as differing
    from shardlift.arrays.replicas import replicate as replicate
    from shardlift.arrays.replicas import unreplicate as unreplicate
    from shardlift.arrays.showing import show as show
    from shardlift.arrays.stitching import local_view as local_view
    from shardlift.arrays.stitching import stitch as stitch
    from shardlift.arrays.waiting import barrier as barrier

# Public name -> its module. Loaded when first used: a pmap needs none of them for its first call.
_WHERE = {
    "barrier": "waiting",
    "device_put_replicated": "placing",
    "device_put_sharded": "placing",
    "differing": "replicas",
    "local_view": "stitching",
    "pad_shard_unpad": "batches",
    "prefetch_to_device": "batches",
    "replicate": "replicas",
    "shard": "batches",
    "show": "showing",
    "stitch": "stitching",
    "unreplicate": "replicas",
}

__all__ = list(_WHERE)

if not TYPE_CHECKING:  # or a checker would take any name for one of ours
    __getattr__, __dir__ = lazy(__name__, _WHERE)
