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
    in_specs = _specs((in_axes, 0), axis_name)
    out_specs = _specs(out_axes, axis_name)

    def mesh_for(*trees):
        count = jax.tree.leaves(jax.tree.map(_size, in_specs, trees))[0]
        chosen = jax.devices()[:count]
        return jax.sharding.Mesh(np.array(chosen), (axis_name,))

    @functools.wraps(fun)
    def mapped(*args, **kwargs):
        def on_device(*blocks):
            row, named = _at_axes(jnp.squeeze, in_specs, blocks)
            return _at_axes(jnp.expand_dims, out_specs, fun(*row, **named))

        sharded = jax.shard_map(
            on_device,
            mesh=mesh_for(args, kwargs),
            in_specs=in_specs,
            out_specs=out_specs,
            check_vma=False,
        )
        return sharded(args, kwargs)

    jitted = jax.jit(mapped)
    return _copy_unmapped(jitted, in_specs, mesh_for)


def _specs(axes, axis_name):
    def spec(axis):
        return jax.P() if axis is None else jax.P(*[None] * axis, axis_name)

    return jax.tree.map(spec, axes, is_leaf=lambda axis: axis is None)


def _at_axes(change, specs, tree):
    def at_axis(spec, part):
        axes = tuple(k for k, name in enumerate(spec) if name is not None)
        return jax.tree.map(lambda x: change(x, axes), part)

    return jax.tree.map(at_axis, specs, tree)


def _size(spec, tree):
    """The number of slices; None where there are none."""
    shapes = map(np.shape, jax.tree.leaves(tree))
    sizes = (shape[len(spec) - 1] for shape in shapes if shape and len(spec))
    return next(sizes, None)


def _copy_unmapped(jitted, in_specs, mesh_for):
    """Copy what is not sliced to all devices, if it is on others."""

    @functools.wraps(jitted)
    def copying(*args, **kwargs):
        everywhere = jax.NamedSharding(mesh_for(args, kwargs), jax.P())

        def copy(x):
            if isinstance(x, jax.core.Tracer) or not isinstance(x, jax.Array):
                return x
            is_there = not x.committed or x.sharding == everywhere
            return x if is_there else jax.device_put(x, everywhere)

        def of_part(spec, part):
            return part if len(spec) else jax.tree.map(copy, part)

        args, kwargs = jax.tree.map(of_part, in_specs, (args, kwargs))
        return jitted(*args, **kwargs)

    return copying


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
