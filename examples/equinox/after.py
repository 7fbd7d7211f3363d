"""Data-parallel training with equinox: the arrays of the model are mapped, the rest is not."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


def spmd_map(fun, axis_name="batch", *, in_axes=0, out_axes=0):
    """Run `fun` on several devices, each with its slice of the arguments.

    This is `jax.jit` of `jax.shard_map`. The axes are given as for `jax.vmap`.
    """

    def spec(axis):
        return jax.P() if axis is None else jax.P(*[None] * axis, axis_name)

    in_specs = jax.tree.map(spec, (in_axes, 0), is_leaf=lambda x: x is None)
    out_specs = jax.tree.map(spec, out_axes, is_leaf=lambda x: x is None)

    def own_slice(block, spec):
        return jnp.squeeze(block, len(spec) - 1) if spec else block

    def with_axis(x, spec):
        return jnp.expand_dims(x, len(spec) - 1) if spec else x

    def mesh_for(args, kwargs):
        specs = jax.tree.broadcast(in_specs, (args, kwargs))
        pairs = zip(jax.tree.leaves((args, kwargs)), jax.tree.leaves(specs))
        count = next(x.shape[len(s) - 1] for x, s in pairs if s)
        chosen = jax.devices()
        return jax.sharding.Mesh(chosen[:count], (axis_name,))

    @jax.jit
    @functools.wraps(fun)
    def mapped(*args, **kwargs):
        mesh = mesh_for(args, kwargs)

        @jax.shard_map(
            mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )
        def on_device(*blocks):
            specs = jax.tree.broadcast(in_specs, blocks)
            row, named = jax.tree.map(own_slice, blocks, specs)
            out = fun(*row, **named)
            specs = jax.tree.broadcast(out_specs, out)
            return jax.tree.map(with_axis, out, specs)

        return on_device(args, kwargs)

    @functools.wraps(fun)
    def call(*args, **kwargs):
        mesh = mesh_for(args, kwargs)
        layout = jax.tree.map(lambda s: jax.NamedSharding(mesh, s), in_specs)
        layout = jax.tree.broadcast(layout, (args, kwargs))
        args, kwargs = jax.tree.map(_placed, (args, kwargs), layout)
        return mapped(*args, **kwargs)

    return call


def _placed(x, sharding):
    """Copy `x` to the devices of `sharding`, if it is on others."""
    if getattr(x, "sharding", sharding) == sharding:
        return x  # or no array: jit places it
    return jax.device_put(x, sharding)


STEPS, BATCH = 60, 64

model = eqx.nn.MLP(4, 1, width_size=32, depth=2, key=jax.random.PRNGKey(0))
params, static = eqx.partition(model, eqx.is_inexact_array)
optimizer = optax.adam(1e-2)


def loss_fn(params, x, y):
    model = eqx.combine(params, static)
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@functools.partial(
    spmd_map, axis_name="batch", in_axes=(None, None, 0, 0), out_axes=(None, None, 0)
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
