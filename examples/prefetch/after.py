"""A data pipeline: batches are made on the host, and wait on the devices before they are needed."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils
from jax import lax

STEPS, BATCH = 50, 64


def per_row(f):
    """Let `f` see the one row of a block, and return a block of one row."""

    @functools.wraps(f)
    def on_block(*block):
        row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block


def examples():
    """Pictures of a bar, and how steep it is."""
    rng = np.random.default_rng(0)
    grid = np.arange(8) - 3.5
    while True:
        angle = rng.uniform(-1, 1, size=BATCH)
        normal = np.stack([np.cos(angle), np.sin(angle)])
        distance = np.einsum("ib,iyx->byx", normal, np.stack(np.meshgrid(grid, grid)))
        yield np.exp(-(distance**2)), angle


def prepare_batch(batch):
    """A row for each device, in the type that they compute in."""
    n = jax.local_device_count()

    def prepare(x):
        return x.reshape((n, -1) + x.shape[1:]).astype(np.float32)

    return jax.tree.map(prepare, batch)


def create_input_iterator():
    batches = map(prepare_batch, examples())
    return jax_utils.prefetch_to_device(batches, 2)


mesh = jax.sharding.Mesh(jax.devices(), ("batch",))
spec = jax.P("batch")


@functools.partial(jax.jit, donate_argnums=(0,))
@jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
@per_row
def train_step(params, batch):
    def loss_fn(params):
        images, angle = batch
        hidden = jnp.tanh(images.reshape(len(images), -1) @ params["w"])
        return jnp.mean((hidden @ params["v"] - angle) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    grads = lax.pmean(grads, "batch")
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, {"loss": lax.pmean(loss, "batch")}


def main():
    rng = np.random.default_rng(1)
    params = {
        "w": rng.normal(size=(64, 16)).astype(np.float32) / 8,
        "v": rng.normal(size=(16,)).astype(np.float32) / 4,
    }
    params = jax_utils.replicate(params)
    seen = []
    for _, batch in zip(range(STEPS), create_input_iterator()):
        params, metrics = train_step(params, batch)
        seen.append(metrics)
    losses = [float(m["loss"]) for m in jax.device_get(jax.tree.map(lambda x: x[0], seen))]
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}")


if __name__ == "__main__":
    main()
