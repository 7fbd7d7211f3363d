"""The check of `doctor` in each of two processes: a sum over the devices of both."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

import shardlift

if __name__ == "__main__":
    mine = jax.process_index() + np.arange(jax.local_device_count(), dtype=np.float32)
    total = shardlift.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(mine)
    expected = sum(p + k for p in range(2) for k in range(jax.local_device_count()))
    assert jax.process_count() == 2, f"{jax.process_count()} processes are connected"
    assert set(np.asarray(total)) == {expected}, f"the sum is {total}, not {expected}"
    shardlift.barrier("doctor", timeout=60)
    print(f"a sum over {jax.device_count()} devices and a barrier work", flush=True)
