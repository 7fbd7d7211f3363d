"""Data-parallel training with equinox: the arrays of the model are mapped, the rest is not."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

STEPS, BATCH = 60, 64

model = eqx.nn.MLP(4, 1, width_size=32, depth=2, key=jax.random.PRNGKey(0))
params, static = eqx.partition(model, eqx.is_inexact_array)
optimizer = optax.adam(1e-2)


def per_row_of(f, in_axes, out_axes=0):
    """Let `f` see one row of each block, along its axis; None: all of it."""

    def at_axes(change, axes, tree):
        def part(k, x):
            return x if k is None else jax.tree.map(lambda y: change(y, k), x)

        return jax.tree.map(part, axes, tree, is_leaf=lambda k: k is None)

    @functools.wraps(f)
    def on_block(*block):
        row = at_axes(jnp.squeeze, in_axes, block)
        return at_axes(jnp.expand_dims, out_axes, f(*row))

    return on_block


def loss_fn(params, x, y):
    model = eqx.combine(params, static)
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


mesh = jax.sharding.Mesh(jax.devices(), ("batch",))
replicated = jax.NamedSharding(mesh, jax.P())


@functools.partial(jax.jit, in_shardings=(replicated, replicated, None, None))
@jax.shard_map(
    mesh=mesh,
    in_specs=(jax.P(), jax.P(), jax.P("batch"), jax.P("batch")),
    out_specs=(jax.P(), jax.P(), jax.P("batch")),
    check_vma=False,
)
@functools.partial(per_row_of, in_axes=(None, None, 0, 0), out_axes=(None, None, 0))
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
