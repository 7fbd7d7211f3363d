"""Data-parallel training in many processes: each feeds its own devices, gradients go over all."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils

STEPS, BATCH = 40, 64  # of all processes together

jax.distributed.initialize()


def device_put_replicated(x, devices):
    """Put `x` on every device, as the rows of one array per leaf."""
    mesh = jax.sharding.Mesh(devices, ("devices",))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
    stack = jax.jit(jnp.broadcast_to, static_argnums=1, out_shardings=rows)
    x = jax.device_put(x, whole)
    return jax.tree_util.tree_map(lambda y: stack(y, (mesh.size, *y.shape)), x)


@functools.partial(jax.pmap, axis_name="batch", donate_argnums=(0,))
def train_step(params, x, y):
    def loss_fn(params):
        return jnp.mean((jnp.tanh(x @ params["w"]) @ params["v"] - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    grads = lax.pmean(grads, axis_name="batch")
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, lax.pmean(loss, axis_name="batch")


def local_batches():
    """The part of each batch that is this process's, a row for each of its devices."""
    rng = np.random.default_rng(0)
    slope = rng.normal(size=(4, 1)).astype(np.float32)
    per_host = BATCH // jax.process_count()
    mine = slice(jax.process_index() * per_host, (jax.process_index() + 1) * per_host)
    while True:
        x = rng.normal(size=(BATCH, 4)).astype(np.float32)
        shards = (jax.local_device_count(), per_host // jax.local_device_count())
        x, y = x[mine], np.sin(x @ slope)[mine]
        yield x.reshape(*shards, 4), y.reshape(*shards, 1)


def main():
    rng = np.random.default_rng(1)
    params = {
        "w": rng.normal(size=(4, 16)).astype(np.float32) / 2,
        "v": rng.normal(size=(16, 1)).astype(np.float32) / 4,
    }
    params = device_put_replicated(params, jax.local_devices())
    for step, (x, y) in zip(range(STEPS), local_batches()):
        params, loss = train_step(params, x, y)
        if jax.process_index() == 0 and (step % 10 == 0 or step == STEPS - 1):
            print(f"step {step:2d}  loss {float(jax.device_get(loss)[0]):.6f}")
    params = jax.tree.map(lambda x: x.addressable_shards[0].data.squeeze(0), params)
    multihost_utils.assert_equal(jax.device_get(params), "processes disagree")
    if jax.process_index() == 0:
        print(f"{jax.device_count()} devices in {jax.process_count()} processes agree")


if __name__ == "__main__":
    main()
