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
    in_specs = _specs((in_axes, 0), axis_name)
    out_specs = _specs(0, axis_name)

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
