"""Data-parallel training on global arrays: a sharded batch, and parameters that are just arrays."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

STEPS, BATCH = 60, 64


def init_params(key, sizes=(4, 32, 1)):
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (n, m)) / np.sqrt(n), "b": jnp.zeros(m)}
        for k, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def predict(params, x):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_fn(params, batch):
    return jnp.mean((predict(params, batch["x"]) - batch["y"]) ** 2)


# As for one device: the mean over the batch is one over all devices, and so is its gradient.
@jax.jit(donate_argnames="params")
def train_step(params, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def batches(seed=0):
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=(4, 1)).astype(np.float32)
    while True:
        x = rng.normal(size=(BATCH, 4)).astype(np.float32)
        yield {"x": x, "y": np.sin(x @ slope)}


def main():
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    over_batch, replicated = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    params = jax.device_put(init_params(jax.random.key(0)), replicated)
    for step, batch in zip(range(STEPS), batches(), strict=False):
        params, loss = train_step(params, jax.device_put(batch, over_batch))
        if step % 20 == 0 or step == STEPS - 1:
            print(f"step {step:3d}  loss {loss:.6f}")
    print(f"bias of the last layer {params[-1]['b'][0]:.6f}")


if __name__ == "__main__":
    main()
