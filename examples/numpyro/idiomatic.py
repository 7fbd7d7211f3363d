"""Chains of numpyro by plain jax.shard_map: as many as you like, an equal share on each device.

Not by jit alone: the trees of NUTS are loops whose length depends on the data, and chains that
share a loop wait for the longest. Under shard_map each device has a loop of its own.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.sharding import PartitionSpec as P
from numpyro.diagnostics import gelman_rubin
from numpyro.infer import MCMC, NUTS

CHAINS, WARMUP, SAMPLES = 16, 100, 100


def schools(sigma, y=None):
    """Eight schools, not centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(5))
    with numpyro.plate("school", len(sigma)):
        theta = numpyro.sample("theta", dist.Normal())
        numpyro.sample("y", dist.Normal(mu + tau * theta, sigma), obs=y)


def do_mcmc(keys, sigma, y):
    """A chain for each key."""
    mcmc = MCMC(
        NUTS(schools),
        num_warmup=WARMUP,
        num_samples=SAMPLES,
        num_chains=len(keys),
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(keys, sigma, y)
    return mcmc.get_samples(group_by_chain=True)


def main():
    y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("chains",))
    # Nothing is exchanged between chains, so there is nothing for check_vma to check.
    sample = jax.shard_map(
        do_mcmc,
        mesh=mesh,
        in_specs=(P("chains"), P(), P()),
        out_specs=P("chains"),
        check_vma=False,
    )
    samples = jax.jit(sample)(jax.random.split(jax.random.PRNGKey(0), CHAINS), sigma, y)
    for name in ("mu", "tau"):
        draws = np.asarray(samples[name])
        r_hat = gelman_rubin(draws)
        print(f"{name:3s} mean {draws.mean():.6f}  r_hat {r_hat:.3f}  of {draws.shape}")


if __name__ == "__main__":
    main()
