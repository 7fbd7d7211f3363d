"""Chains of blackjax, one on each device: HMC with a step size found by window adaptation."""

import functools

import blackjax
import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
import numpy as np


def spmd_map(fun, axis_name="_devices", *, in_axes=0, static_broadcasted_argnums=()):
    """Map `fun` over axes, given as for `jax.vmap`, one slice per device."""
    static = jax.tree.leaves(static_broadcasted_argnums)
    if static and isinstance(in_axes, tuple):  # the last may have no axis
        in_axes += (None,) * (max(static) + 1 - len(in_axes))

    def spec(axis):
        return jax.P() if axis is None else jax.P(*[None] * axis, axis_name)

    specs = jax.tree.map(spec, (in_axes, 0), is_leaf=lambda x: x is None)

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
        given = args  # with the static ones
        args = tuple(None if k in static else x for k, x in enumerate(args))
        mesh = mesh_for(args, kwargs)

        @jax.shard_map(mesh=mesh, in_specs=specs, out_specs=spec(0), check_vma=False)
        def on_device(*block):
            row, named = at_axes(jnp.squeeze, specs, block)
            row = [given[k] if k in static else x for k, x in enumerate(row)]
            return at_axes(jnp.expand_dims, spec(0), fun(*row, **named))

        return on_device(args, kwargs)

    jitted = jax.jit(functools.wraps(fun)(mapped), static_argnums=static)

    def call(*args, **kwargs):
        try:
            return jitted(*args, **kwargs)
        except ValueError as error:
            if "incompatible devices" not in str(error):
                raise
        given = args  # with the static ones
        args = tuple(None if k in static else x for k, x in enumerate(args))
        put = functools.partial(jax.NamedSharding, mesh_for(args, kwargs))
        args, kwargs = jax.device_put((args, kwargs), jax.tree.map(put, specs))
        args = [given[k] if k in static else x for k, x in enumerate(args)]
        return jitted(*args, **kwargs)

    return functools.wraps(fun)(call)


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
