"""Data-parallel training with equinox on global arrays: whole models through eqx.filter_jit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

STEPS, BATCH = 60, 64
optimizer = optax.adam(1e-2)


def loss_fn(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@eqx.filter_jit(donate="all")
def train_step(model, opt_state, x, y):
    loss, grads = eqx.filter_value_and_grad(loss_fn)(model, x, y)
    updates, opt_state = optimizer.update(grads, opt_state)
    return eqx.apply_updates(model, updates), opt_state, loss


def batches():
    rng = np.random.default_rng(0)
    slope = rng.normal(size=(4, 1)).astype(np.float32)
    while True:
        x = rng.normal(size=(BATCH, 4)).astype(np.float32)
        yield x, np.sin(x @ slope)


def main():
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    over_batch, replicated = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    model = eqx.nn.MLP(4, 1, width_size=32, depth=2, key=jax.random.key(0))
    opt_state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    model, opt_state = eqx.filter_shard((model, opt_state), replicated)
    losses = []
    for _, batch in zip(range(STEPS), batches(), strict=False):
        model, opt_state, loss = train_step(model, opt_state, *jax.device_put(batch, over_batch))
        losses.append(loss)
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}")
    print(f"prediction {model(jnp.ones(4))[0]:.6f}")


if __name__ == "__main__":
    main()
