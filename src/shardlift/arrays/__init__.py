"""Placing arrays on devices and reading them back."""

from shardlift.arrays.placing import device_put_replicated, device_put_sharded

__all__ = ["device_put_replicated", "device_put_sharded"]
