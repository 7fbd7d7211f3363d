"""Data-parallel training with equinox: the arrays of the model are mapped, the rest is not."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


def spmd_map(fun, axis_name="_devices", *, in_axes=0, out_axes=0):
    """Map `fun` over axes, given as for `jax.vmap`, one slice per device."""

    def spec(axis):
        return jax.P() if axis is None else jax.P(*[None] * axis, axis_name)

    specs = jax.tree.map(spec, (in_axes, 0), is_leaf=lambda x: x is None)
    out_specs = jax.tree.map(spec, out_axes, is_leaf=lambda x: x is None)

    def at_axes(f, specs, tree):
        def part(s, x):
            return jax.tree.map(lambda y: f(y, len(s) - 1), x) if s else x

        return jax.tree.map(part, specs, tree)

    def mesh_for(*trees):
        chosen, sizes = jax.devices(), []
        if any(d.process_index != jax.process_index() for d in chosen):
            raise RuntimeError("written for one process, not for several")
        at_axes(lambda x, k: sizes.extend(jnp.shape(x)[k:][:1]), specs, trees)
        return jax.sharding.Mesh(chosen[: max(sizes)], (axis_name,))

    def mapped(*args, **kwargs):
        mesh = mesh_for(args, kwargs)

        @jax.shard_map(
            mesh=mesh, in_specs=specs, out_specs=out_specs, check_vma=False
        )
        def on_device(*block):
            row, named = at_axes(jnp.squeeze, specs, block)
            return at_axes(jnp.expand_dims, out_specs, fun(*row, **named))

        return on_device(args, kwargs)

    jitted = jax.jit(functools.wraps(fun)(mapped))

    def call(*args, **kwargs):
        try:
            return jitted(*args, **kwargs)
        except ValueError as error:
            if "incompatible devices" not in str(error):
                raise
        put = functools.partial(jax.NamedSharding, mesh_for(args, kwargs))
        args, kwargs = jax.device_put((args, kwargs), jax.tree.map(put, specs))
        return jitted(*args, **kwargs)

    return functools.wraps(fun)(call)


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
