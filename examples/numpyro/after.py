"""Chains of numpyro: some side by side on each device."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import gelman_rubin
from numpyro.infer import MCMC, NUTS

CHAINS_PER_DEVICE, WARMUP, SAMPLES = 2, 100, 100


def per_row(f, in_axes=()):
    """Let `f` see one row of each argument, along its axis; None: all of it."""

    def row(axis, x):
        return x if axis is None else jax.tree.map(lambda y: jnp.squeeze(y, axis), x)

    @functools.wraps(f)
    def on_block(*block):
        out = f(*map(row, in_axes or (0,) * len(block), block))
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)

    return on_block


def schools(sigma, y=None):
    """Eight schools, not centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(5))
    with numpyro.plate("school", len(sigma)):
        theta = numpyro.sample("theta", dist.Normal())
        numpyro.sample("y", dist.Normal(mu + tau * theta, sigma), obs=y)


def do_mcmc(rng_key, sigma, y):
    mcmc = MCMC(
        NUTS(schools),
        num_warmup=WARMUP,
        num_samples=SAMPLES,
        num_chains=CHAINS_PER_DEVICE,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(rng_key, sigma, y)
    return mcmc.get_samples(group_by_chain=True)


def main():
    y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    n = jax.local_device_count()
    rng_keys = jax.random.split(jax.random.PRNGKey(0), n)
    mesh = jax.sharding.Mesh(jax.devices(), ("devices",))
    replicated = jax.NamedSharding(mesh, jax.P())
    samples = jax.jit(
        jax.shard_map(
            per_row(do_mcmc, in_axes=(0, None, None)),
            mesh=mesh,
            in_specs=(jax.P("devices"), jax.P(), jax.P()),
            out_specs=jax.P("devices"),
            check_vma=False,
        ),
        in_shardings=(None, replicated, replicated),
    )(rng_keys, sigma, y)
    # The device axis goes into that of the chains.
    samples = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), samples)
    for name in ("mu", "tau"):
        draws = samples[name]
        r_hat = gelman_rubin(draws)
        print(f"{name:3s} mean {draws.mean():.6f}  r_hat {r_hat:.3f}  of {draws.shape}")


if __name__ == "__main__":
    main()
