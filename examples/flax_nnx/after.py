"""Data-parallel training with flax nnx: the state is split off, mapped, and merged again."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils, nnx
from flax.training import common_utils

STEPS, BATCH = 40, 64


def per_row(f):
    """Let `f` see the one row of a block, and return a block of one row."""

    @functools.wraps(f)
    def on_block(*block):
        row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block


class Regressor(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(4, 32, rngs=rngs)
        self.norm = nnx.BatchNorm(32, axis_name="batch", rngs=rngs)
        self.dropout = nnx.Dropout(0.05, rngs=rngs)
        self.out = nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(self.dropout(nnx.relu(self.norm(self.hidden(x)))))


graphdef = nnx.graphdef(Regressor(nnx.Rngs(params=0, dropout=1)))
optimizer = optax.adam(1e-2)


mesh = jax.sharding.Mesh(jax.devices(), ("batch",))
spec = jax.P("batch")


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
@per_row
def create(dropout_key):
    """The same parameters on every device, another key for dropout on each."""
    model = Regressor(nnx.Rngs(params=0, dropout=dropout_key))
    return nnx.state(model), optimizer.init(nnx.state(model, nnx.Param))


def loss_fn(model, batch):
    return jnp.mean((model(batch["x"]) - batch["y"]) ** 2)


@functools.partial(jax.jit, donate_argnums=(0, 1))
@jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
@per_row
def train_step(state, opt_state, batch):
    model = nnx.merge(graphdef, state)
    loss, grads = nnx.value_and_grad(loss_fn)(model, batch)
    grads = jax.lax.pmean(grads, "batch")
    params = nnx.state(model, nnx.Param)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    nnx.update(model, optax.apply_updates(params, updates))
    return nnx.state(model), opt_state, jax.lax.pmean(loss, "batch")


def batches():
    rng = np.random.default_rng(0)
    slope = rng.normal(size=(4, 1)).astype(np.float32)
    while True:
        x = rng.normal(size=(BATCH, 4)).astype(np.float32)
        yield common_utils.shard({"x": x, "y": np.sin(x @ slope)})


def main():
    keys = jax.random.split(jax.random.PRNGKey(1), jax.local_device_count())
    state, opt_state = create(keys)
    losses = []
    for _, batch in zip(range(STEPS), batches()):
        state, opt_state, loss = train_step(state, opt_state, batch)
        losses.append(float(jax.device_get(loss)[0]))
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}")

    model = nnx.merge(graphdef, jax_utils.unreplicate(state))
    model.eval()
    print(f"prediction {model(jnp.ones((1, 4)))[0, 0]:.6f}")


if __name__ == "__main__":
    main()
