"""Chains of blackjax, one on each device: HMC with a step size found by window adaptation."""

import functools

import blackjax
import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
import numpy as np


def spmd_map(fun, axis_name="devices", *, in_axes=0, static_broadcasted_argnums=()):
    """Run `fun` on several devices, each with its slice of the arguments.

    This is `jax.jit` of `jax.shard_map`. The axes are given as for `jax.vmap`.
    """

    def spec(axis):
        return jax.P() if axis is None else jax.P(*[None] * axis, axis_name)

    out_specs = jax.P(axis_name)
    in_specs = jax.tree.map(spec, (in_axes, 0), is_leaf=lambda x: x is None)
    static = jax.tree.leaves(static_broadcasted_argnums)

    def own_slice(block, spec):
        return jnp.squeeze(block, len(spec) - 1) if spec else block

    def mesh_for(args, kwargs):
        args = tuple(None if k in static else x for k, x in enumerate(args))
        specs = jax.tree.broadcast(in_specs, (args, kwargs))
        pairs = zip(jax.tree.leaves((args, kwargs)), jax.tree.leaves(specs))
        count = next(x.shape[len(s) - 1] for x, s in pairs if s)
        chosen = jax.devices()
        return jax.sharding.Mesh(chosen[:count], (axis_name,))

    @functools.partial(jax.jit, static_argnums=static)
    @functools.wraps(fun)
    def mapped(*args, **kwargs):
        mesh = mesh_for(args, kwargs)
        given = args
        args = tuple(None if k in static else x for k, x in enumerate(args))

        @jax.shard_map(
            mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )
        def on_device(*blocks):
            specs = jax.tree.broadcast(in_specs, blocks)
            row, named = jax.tree.map(own_slice, blocks, specs)
            row = [given[k] if k in static else x for k, x in enumerate(row)]
            out = fun(*row, **named)
            return jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)

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


WARMUP, SAMPLES = 200, 300


def logdensity(position):
    """Where the data come from, and how wide they are spread."""
    prior = stats.norm.logpdf(position["loc"], 0, 5) + position["log_scale"]
    scale = jnp.exp(position["log_scale"])
    return prior - scale + stats.norm.logpdf(OBSERVED, position["loc"], scale).sum()


OBSERVED = np.random.default_rng(0).normal(3.0, 0.7, size=100).astype(np.float32)


def inference_loop(rng_key, kernel, initial_state, num_samples):
    def one_step(state, rng_key):
        state, info = kernel(rng_key, state)
        return state, (state, info.acceptance_rate)

    keys = jax.random.split(rng_key, num_samples)
    _, (states, acceptance) = jax.lax.scan(one_step, initial_state, keys)
    return states.position, acceptance


inference_loop_multiple_chains = spmd_map(
    inference_loop, in_axes=(0, None, 0, None), static_broadcasted_argnums=(1, 3)
)


def main():
    warmup_key, init_key, sample_key = jax.random.split(jax.random.PRNGKey(0), 3)
    start = {"loc": jnp.array(1.0), "log_scale": jnp.array(0.0)}
    warmup = blackjax.window_adaptation(blackjax.nuts, logdensity)
    (_, parameters), _ = warmup.run(warmup_key, start, num_steps=WARMUP)
    hmc = blackjax.hmc(logdensity, num_integration_steps=2, **parameters)

    n = jax.local_device_count()
    spread = jax.random.normal(init_key, (n,))
    positions = {"loc": 3 + 0.1 * spread, "log_scale": 0.1 * spread}
    states = jax.vmap(hmc.init)(positions)
    keys = jax.random.split(sample_key, n)
    samples, acceptance = inference_loop_multiple_chains(keys, hmc.step, states, SAMPLES)

    for name, draws in jax.device_get(samples).items():
        r_hat = blackjax.diagnostics.potential_scale_reduction(draws)
        print(f"{name:9s} mean {draws.mean():.6f}  r_hat {r_hat:.3f}  of {draws.shape}")
    print(f"accepted {acceptance.mean():.4f}")


if __name__ == "__main__":
    main()
