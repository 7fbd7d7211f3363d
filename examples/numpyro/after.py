"""Chains of numpyro: some side by side on each device."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import gelman_rubin
from numpyro.infer import MCMC, NUTS


@functools.lru_cache(maxsize=64)  # mapped again, it is not compiled again
def spmd_map(fun, axis_name="devices", *, in_axes=0):
    """Run `fun` on several devices, each with its slice of the arguments.

    This is `jax.jit` of `jax.shard_map`. The axes are given as for `jax.vmap`.
    """

    def spec(axis):
        return jax.P() if axis is None else jax.P(*[None] * axis, axis_name)

    out_specs = jax.P(axis_name)
    in_specs = jax.tree.map(spec, (in_axes, 0), is_leaf=lambda x: x is None)

    def own_slice(block, spec):
        return jnp.squeeze(block, len(spec) - 1) if spec else block

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


CHAINS_PER_DEVICE, WARMUP, SAMPLES = 2, 100, 100


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
    samples = spmd_map(do_mcmc, in_axes=(0, None, None))(rng_keys, sigma, y)
    # The device axis goes into that of the chains.
    samples = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), samples)
    for name in ("mu", "tau"):
        draws = samples[name]
        r_hat = gelman_rubin(draws)
        print(f"{name:3s} mean {draws.mean():.6f}  r_hat {r_hat:.3f}  of {draws.shape}")


if __name__ == "__main__":
    main()
