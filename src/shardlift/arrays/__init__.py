"""Placing arrays on devices and reading them back."""

from typing import TYPE_CHECKING

from shardlift._lazy import lazy

if TYPE_CHECKING:
    from shardlift.arrays.barriers import barrier as barrier
    from shardlift.arrays.batches import pad_shard_unpad as pad_shard_unpad
    from shardlift.arrays.batches import prefetch_to_device as prefetch_to_device
    from shardlift.arrays.batches import shard as shard
    from shardlift.arrays.display import show as show
    from shardlift.arrays.global_arrays import local_view as local_view
    from shardlift.arrays.global_arrays import stitch as stitch
    from shardlift.arrays.placement import device_put_replicated as device_put_replicated
    from shardlift.arrays.placement import device_put_sharded as device_put_sharded
    from shardlift.arrays.replicas import replicate as replicate
    from shardlift.arrays.replicas import unreplicate as unreplicate

# Public name -> its module, loaded when first used: the first call of a pmap needs none of them.
_WHERE = {
    "barrier": "shardlift.arrays.barriers",
    "show": "shardlift.arrays.display",
    **dict.fromkeys(("pad_shard_unpad", "prefetch_to_device", "shard"), "shardlift.arrays.batches"),
    **dict.fromkeys(("local_view", "stitch"), "shardlift.arrays.global_arrays"),
    **dict.fromkeys(("device_put_replicated", "device_put_sharded"), "shardlift.arrays.placement"),
    **dict.fromkeys(("replicate", "unreplicate"), "shardlift.arrays.replicas"),
}

__all__ = list(_WHERE)

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__, __dir__ = lazy(__name__, _WHERE)
