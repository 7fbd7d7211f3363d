"""Data-parallel training with flax nnx on global arrays: nnx.jit, and no state by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

STEPS, BATCH = 40, 64


class Regressor(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(4, 32, rngs=rngs)
        self.norm = nnx.BatchNorm(32, rngs=rngs)  # over the whole batch, wherever it is
        self.dropout = nnx.Dropout(0.05, rngs=rngs)
        self.out = nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(self.dropout(nnx.relu(self.norm(self.hidden(x)))))


def loss_fn(model, batch):
    return jnp.mean((model(batch["x"]) - batch["y"]) ** 2)


@nnx.jit
def train_step(model, optimizer, batch):
    loss, grads = nnx.value_and_grad(loss_fn)(model, batch)
    optimizer.update(model, grads)
    return loss


def batches():
    rng = np.random.default_rng(0)
    slope = rng.normal(size=(4, 1)).astype(np.float32)
    while True:
        x = rng.normal(size=(BATCH, 4)).astype(np.float32)
        yield {"x": x, "y": np.sin(x @ slope)}


def main():
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    over_batch, replicated = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    model = Regressor(nnx.Rngs(params=0, dropout=1))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    for part in (model, optimizer):
        nnx.update(part, jax.device_put(nnx.state(part), replicated))
    losses = []
    for _, batch in zip(range(STEPS), batches(), strict=False):
        losses.append(train_step(model, optimizer, jax.device_put(batch, over_batch)))
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}")
    model.eval()
    print(f"prediction {model(jnp.ones((1, 4)))[0, 0]:.6f}")


if __name__ == "__main__":
    main()
