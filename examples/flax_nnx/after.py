"""Data-parallel training with flax nnx: the state is split off, mapped, and merged again."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from flax.training import common_utils


def shard_map_per_device(f, axis_name="devices"):
    """`jax.shard_map` of `f`, with one row of every argument on each device.

    `f` sees its row without the leading axis, which is put back on what it returns. The mesh is
    made when `f` is traced: before that, no device is touched.
    """

    @functools.wraps(f)
    def mapped(*args, **kwargs):
        def one_row(args, kwargs):
            args, kwargs = jax.tree.map(lambda x: jnp.squeeze(x, 0), (args, kwargs))
            return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*args, **kwargs))

        rows = len(jax.tree.leaves((args, kwargs))[0])
        devices = jax.devices()[: rows * jax.process_count()]
        mesh = jax.sharding.Mesh(np.array(devices), (axis_name,))
        spec = jax.P(axis_name)
        sharded = jax.shard_map(one_row, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return sharded(args, kwargs)

    return mapped


def unreplicate(tree):
    """The first device's row of every leaf, on that device: nothing is gathered."""

    def first(x):
        if getattr(x, "ndim", 1) == 0:
            return x  # a scalar has no rows
        return first_row(x) if has_rows(x) else x[0]

    return jax.tree.map(first, tree)


def has_rows(x):
    """Whether `x` lies on devices that hold whole rows of it."""
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
        return False
    return x.ndim > 0 and x.sharding.shard_shape(x.shape)[1:] == x.shape[1:]


def first_row(x):
    """The row on the first local device of `x`."""
    return first_of_block(x.addressable_data(0))


first_of_block = jax.jit(lambda block: block[0])


STEPS, BATCH = 40, 64


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


@jax.jit
@shard_map_per_device
def create(dropout_key):
    """The same parameters on every device, another key for dropout on each."""
    model = Regressor(nnx.Rngs(params=0, dropout=dropout_key))
    return nnx.state(model), optimizer.init(nnx.state(model, nnx.Param))


def loss_fn(model, batch):
    return jnp.mean((model(batch["x"]) - batch["y"]) ** 2)


@functools.partial(jax.jit, donate_argnums=(0, 1))
@functools.partial(shard_map_per_device, axis_name="batch")
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
        losses.append(float(unreplicate(loss)))
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}")

    model = nnx.merge(graphdef, unreplicate(state))
    model.eval()
    print(f"prediction {model(jnp.ones((1, 4)))[0, 0]:.6f}")


if __name__ == "__main__":
    main()
