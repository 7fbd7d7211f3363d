"""Chains of numpyro: some side by side on each device."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import gelman_rubin
from numpyro.infer import MCMC, NUTS


@functools.lru_cache(maxsize=128)  # a function that is mapped again is compiled once
def shard_map_per_device(f, axis_name="devices", in_specs=None, out_specs=None):
    """`jax.shard_map` of `f`, with one row of what `in_specs` shards on each device.

    `f` sees its row without the sharded axis; those of `out_specs` are put into what it returns.
    Both are the leading axis unless given, and always for keyword arguments. The mesh is made
    when `f` is traced: before that, no device is touched.
    """
    leading = jax.P(axis_name)
    in_specs = leading if in_specs is None else in_specs
    out_specs = leading if out_specs is None else out_specs

    @functools.wraps(f)
    def mapped(*args, **kwargs):
        blocks = (args, kwargs)
        specs = jax.tree.map(spec_of_leaves, (in_specs, leading), blocks, is_leaf=is_spec)

        def one_row(blocks):
            args, kwargs = jax.tree.map(lambda s, x: jnp.squeeze(x, sharded_axes(s)), specs, blocks)
            return jax.tree.map(add_axes, out_specs, f(*args, **kwargs), is_leaf=is_spec)

        leaves = zip(jax.tree.leaves(specs), jax.tree.leaves(blocks))
        rows = next(x.shape[axis] for spec, x in leaves for axis in sharded_axes(spec))
        devices = jax.devices()[: rows * jax.process_count()]
        mesh = jax.sharding.Mesh(np.array(devices), (axis_name,))
        return jax.shard_map(
            one_row, mesh=mesh, in_specs=(specs,), out_specs=out_specs, check_vma=False
        )(blocks)

    return mapped


def add_axes(spec, tree):
    """A row of every leaf as a block again."""
    return jax.tree.map(lambda x: jnp.expand_dims(x, sharded_axes(spec)), tree)


def sharded_axes(spec):
    return tuple(axis for axis, name in enumerate(spec) if name is not None)


def spec_of_leaves(spec, tree):
    return jax.tree.map(lambda _: spec, tree)


def is_spec(x):
    return isinstance(x, jax.P)


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
    samples = jax.jit(
        shard_map_per_device(
            do_mcmc, in_specs=(jax.P("devices"), jax.P(), jax.P())
        )
    )(rng_keys, sigma, y)
    # The device axis goes into that of the chains.
    samples = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), samples)
    for name in ("mu", "tau"):
        draws = samples[name]
        r_hat = gelman_rubin(draws)
        print(f"{name:3s} mean {draws.mean():.6f}  r_hat {r_hat:.3f}  of {draws.shape}")


if __name__ == "__main__":
    main()
