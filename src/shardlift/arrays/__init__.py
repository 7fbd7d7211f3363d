"""Placing arrays on devices and reading them back."""

from shardlift.arrays.batches import pad_shard_unpad, prefetch_to_device, shard
from shardlift.arrays.placing import device_put_replicated, device_put_sharded
from shardlift.arrays.replicas import differing, replicate, unreplicate
from shardlift.arrays.showing import show
from shardlift.arrays.stitching import local_view, stitch
from shardlift.arrays.waiting import barrier

__all__ = [
    "barrier",
    "device_put_replicated",
    "device_put_sharded",
    "differing",
    "local_view",
    "pad_shard_unpad",
    "prefetch_to_device",
    "replicate",
    "shard",
    "show",
    "stitch",
    "unreplicate",
]
