"""Data-parallel training with equinox: the arrays of the model are mapped, the rest is not."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


def shard_map_per_device(f, axis_name="devices", in_specs=None, out_specs=None):
    """`jax.shard_map` of `f`, with one row of what `in_specs` shards on each device.

    `f` sees its row without the sharded axis; those of `out_specs` are put into what it returns.
    Both are the leading axis unless given, and always for keyword arguments. The mesh is made
    when `f` is traced: before that, no device is touched.
    """
    leading = jax.P(axis_name)
    in_specs = leading if in_specs is None else in_specs
    out_specs = leading if out_specs is None else out_specs

    @functools.wraps(f)
    def mapped(*args, **kwargs):
        blocks = (args, kwargs)
        specs = jax.tree.map(spec_of_leaves, (in_specs, leading), blocks, is_leaf=is_spec)

        def one_row(blocks):
            args, kwargs = jax.tree.map(lambda s, x: jnp.squeeze(x, sharded_axes(s)), specs, blocks)
            return jax.tree.map(add_axes, out_specs, f(*args, **kwargs), is_leaf=is_spec)

        leaves = zip(jax.tree.leaves(specs), jax.tree.leaves(blocks))
        rows = next(x.shape[axis] for spec, x in leaves for axis in sharded_axes(spec))
        devices = jax.devices()[: rows * jax.process_count()]
        mesh = jax.sharding.Mesh(np.array(devices), (axis_name,))
        return jax.shard_map(
            one_row, mesh=mesh, in_specs=(specs,), out_specs=out_specs, check_vma=False
        )(blocks)

    return mapped


def add_axes(spec, tree):
    """A row of every leaf as a block again."""
    return jax.tree.map(lambda x: jnp.expand_dims(x, sharded_axes(spec)), tree)


def sharded_axes(spec):
    return tuple(axis for axis, name in enumerate(spec) if name is not None)


def spec_of_leaves(spec, tree):
    return jax.tree.map(lambda _: spec, tree)


def is_spec(x):
    return isinstance(x, jax.P)


STEPS, BATCH = 60, 64

model = eqx.nn.MLP(4, 1, width_size=32, depth=2, key=jax.random.PRNGKey(0))
params, static = eqx.partition(model, eqx.is_inexact_array)
optimizer = optax.adam(1e-2)


def loss_fn(params, x, y):
    model = eqx.combine(params, static)
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@jax.jit
@functools.partial(
    shard_map_per_device,
    axis_name="batch",
    in_specs=(jax.P(), jax.P(), jax.P("batch"), jax.P("batch")),
    out_specs=(jax.P(), jax.P(), jax.P("batch")),
)
def train_step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    grads = jax.lax.pmean(grads, "batch")
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return eqx.apply_updates(params, updates), opt_state, loss


def batches():
    rng = np.random.default_rng(0)
    slope = rng.normal(size=(4, 1)).astype(np.float32)
    n = jax.local_device_count()
    while True:
        x = rng.normal(size=(n, BATCH // n, 4)).astype(np.float32)
        yield x, np.sin(x @ slope)


def main():
    state, opt_state = params, optimizer.init(params)
    losses = []
    for _, (x, y) in zip(range(STEPS), batches()):
        state, opt_state, loss = train_step(state, opt_state, x, y)
        losses.append(float(loss.mean()))
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}")
    trained = eqx.combine(state, static)
    print(f"prediction {trained(jnp.ones(4))[0]:.6f}")


if __name__ == "__main__":
    main()
