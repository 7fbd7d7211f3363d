"""Data-parallel training in plain JAX: the state on every device, a shard of each batch."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

STEPS, BATCH = 60, 64


def device_put_replicated(x, devices):
    """Put `x` on every device, as the rows of one array per leaf."""
    mesh = jax.sharding.Mesh(devices, ("batch",))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    stack = jax.jit(jnp.broadcast_to, static_argnums=1, out_shardings=rows)
    x = jax.device_put(x, whole)
    return jax.tree.map(lambda y: stack(y, (mesh.size, *y.shape)), x)


def per_row(f):
    """Let `f` see the one row of a block, and return a block of one row."""

    @functools.wraps(f)
    def on_block(*block):
        row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block


def init_params(key, sizes=(4, 32, 1)):
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (n, m)) / np.sqrt(n), "b": jnp.zeros(m)}
        for k, n, m in zip(keys, sizes[:-1], sizes[1:])
    ]


def predict(params, x):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_fn(params, batch):
    return jnp.mean((predict(params, batch["x"]) - batch["y"]) ** 2)


mesh = jax.sharding.Mesh(jax.devices(), ("batch",))
spec = jax.P("batch")


@functools.partial(jax.jit, donate_argnums=(0,))
@jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
@per_row
def train_step(params, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    grads = lax.pmean(grads, axis_name="batch")
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, lax.pmean(loss, axis_name="batch")


def batches(seed=0):
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=(4, 1)).astype(np.float32)
    while True:
        x = rng.normal(size=(BATCH, 4)).astype(np.float32)
        yield {"x": x, "y": np.sin(x @ slope)}


def shard(batch):
    n = jax.local_device_count()
    return jax.tree.map(lambda x: x.reshape(n, x.shape[0] // n, *x.shape[1:]), batch)


def main():
    params = init_params(jax.random.PRNGKey(0))
    params = device_put_replicated(params, jax.local_devices())
    for step, batch in zip(range(STEPS), batches()):
        params, loss = train_step(params, shard(batch))
        if step % 20 == 0 or step == STEPS - 1:
            print(f"step {step:3d}  loss {jax.device_get(loss)[0]:.6f}")
    params = jax.tree.map(lambda x: x.addressable_shards[0].data.squeeze(0), params)
    print(f"bias of the last layer {params[-1]['b'][0]:.6f}")


if __name__ == "__main__":
    main()
