"""flax's helpers for pmap: with which JAX and flax they work, and are fast.

Run on 8 CPU devices with JAX 0.10.2 and 0.12.0.1, and flax 0.8.5 to 0.12.12. JAX 0.11 and later
need flax 0.12.7 for anything at all, and there all of them work.

- `replicate` and `prefetch_to_device` call functions that JAX 0.10 removed, up to flax 0.12.6.
  From 0.12.7 on, `prefetch_to_device` splits the first axis over the devices, however long it is.
- `unreplicate` gathers every leaf under the pmap of JAX 0.8 and later up to flax 0.12.2. From
  0.12.3 on it reads the first shard (50 leaves: 3 ms, where `x[0]` of each takes 150 ms), but up
  to 0.12.4 it asks for an option that JAX 0.10 removed. `get_metrics` calls it.
- `shard`, `shard_prng_key`, `stack_forest`, `onehot`, `pad_shard_unpad`, `partial_eval_by_shape`
  work with all of them, as do chex's `fake_pmap`, `fake_pmap_and_jit`, `variants(with_pmap=True)`
  and `assert_tree_is_sharded` (chex 0.1.92).
"""

from enum import StrEnum

from shardlift.source.libraries import UNREPLICATE
from shardlift.source.settings import Settings


class Fitness(StrEnum):
    """What becomes of a call."""

    WORKS = "works"
    SLOW = "slow"  # it gathers
    RAISES = "raises"


_PLACING = frozenset({"flax.jax_utils.replicate", "flax.jax_utils.prefetch_to_device"})
_READING = UNREPLICATE | {"flax.training.common_utils.get_metrics"}


def has_new_helpers(settings: Settings) -> bool:
    """Whether `prefetch_to_device` splits batches, and `replicate` gives Python numbers a type."""
    return settings.usable_flax >= (0, 12, 7)


def fitness(path: str, settings: Settings) -> Fitness:
    """How one of flax's functions fares with the JAX and the flax of a project."""
    jax, flax = settings.target, settings.usable_flax
    if path in _PLACING:
        return Fitness.RAISES if jax >= (0, 10) and flax < (0, 12, 7) else Fitness.WORKS
    if path not in _READING or jax < (0, 8):
        return Fitness.WORKS
    if flax < (0, 12, 3):
        return Fitness.SLOW
    return Fitness.RAISES if jax >= (0, 10) and flax < (0, 12, 5) else Fitness.WORKS
