"""What ``shardlift.pmap`` costs, beside bare ``jit(shard_map)`` and ``jax.pmap``."""
