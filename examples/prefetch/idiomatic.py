"""A data pipeline to global arrays: device_put returns at once, so a queue of two is enough."""

import collections
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

STEPS, BATCH = 50, 64


def examples():
    """Pictures of a bar, and how steep it is."""
    rng = np.random.default_rng(0)
    grid = np.arange(8) - 3.5
    while True:
        angle = rng.uniform(-1, 1, size=BATCH)
        normal = np.stack([np.cos(angle), np.sin(angle)])
        distance = np.einsum("ib,iyx->byx", normal, np.stack(np.meshgrid(grid, grid)))
        yield np.exp(-(distance**2)).astype(np.float32), angle.astype(np.float32)


def prefetch(batches, sharding, size=2):
    """Batches on the devices, the next ones on their way while one is used."""
    waiting = collections.deque()
    for batch in batches:
        waiting.append(jax.device_put(batch, sharding))
        if len(waiting) > size:
            yield waiting.popleft()
    yield from waiting


@jax.jit(donate_argnames="params")
def train_step(params, batch):
    def loss_fn(params):
        images, angle = batch
        hidden = jnp.tanh(images.reshape(len(images), -1) @ params["w"])
        return jnp.mean((hidden @ params["v"] - angle) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def main():
    rng = np.random.default_rng(1)
    params = {
        "w": rng.normal(size=(64, 16)).astype(np.float32) / 8,
        "v": rng.normal(size=(16,)).astype(np.float32) / 4,
    }
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    over_batch, replicated = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    params = jax.device_put(params, replicated)
    losses = []
    for batch in prefetch(itertools.islice(examples(), STEPS), over_batch):
        params, loss = train_step(params, batch)
        losses.append(loss)
    losses = jax.device_get(losses)
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}")


if __name__ == "__main__":
    main()
