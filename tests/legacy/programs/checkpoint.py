"""Save one replica, load it on another day, go on training from it."""

import os
import pickle
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PmapSharding


def step(state):
    grads = jax.lax.pmean(state["w"] * (jax.lax.axis_index("b") + 1), "b")
    return {"w": state["w"] - 0.01 * grads, "step": state["step"] + 1}


p_step = jax.pmap(step, axis_name="b")


def save(path, state):
    if isinstance(state["w"].sharding, PmapSharding):
        state = jax.tree_util.tree_map(lambda x: x[0], state)
    with open(path, "wb") as file:
        pickle.dump(jax.device_get(state), file)


def restore(path, shape):
    with open(path, "rb") as file:
        host = pickle.load(file)
    sharding = PmapSharding.default((jax.local_device_count(), *shape))
    stacked = np.broadcast_to(host["w"], (jax.local_device_count(), *shape))
    return {
        "w": jax.device_put(stacked, sharding),
        "step": jax.device_put_replicated(host["step"], jax.local_devices()),
    }


def main():
    state = {"w": jnp.linspace(-1, 1, 6).reshape(2, 3), "step": jnp.int32(0)}
    state = jax.device_put_replicated(state, jax.local_devices())
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(4):
            state = p_step(state)
        save(os.path.join(folder, "checkpoint"), state)
        restored = restore(os.path.join(folder, "checkpoint"), (2, 3))
    same = bool((restored["w"] == state["w"]).all())
    for _ in range(3):
        restored = p_step(restored)
    return {"same": same, "w": restored["w"], "step": restored["step"][0]}


if __name__ == "__main__":
    RESULTS = main()
