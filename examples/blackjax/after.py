"""Chains of blackjax, one on each device: HMC with a step size found by window adaptation."""

import functools

import blackjax
import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
import numpy as np

WARMUP, SAMPLES = 200, 300


def per_row(f):
    """Let `f` see the one row of a block, and return a block of one row."""

    @functools.wraps(f)
    def on_block(*block):
        row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block


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
    mesh = jax.sharding.Mesh(jax.devices(), ("devices",))
    chains = jax.jit(
        jax.shard_map(
            per_row(lambda key, state: inference_loop(key, hmc.step, state, SAMPLES)),
            mesh=mesh,
            in_specs=jax.P("devices"),
            out_specs=jax.P("devices"),
            check_vma=False,
        )
    )
    samples, acceptance = chains(keys, states)

    for name, draws in jax.device_get(samples).items():
        r_hat = blackjax.diagnostics.potential_scale_reduction(draws)
        print(f"{name:9s} mean {draws.mean():.6f}  r_hat {r_hat:.3f}  of {draws.shape}")
    print(f"accepted {acceptance.mean():.4f}")


if __name__ == "__main__":
    main()
