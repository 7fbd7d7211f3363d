"""Chains of numpyro: some side by side on each device."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import gelman_rubin
from numpyro.infer import MCMC, NUTS


def spmd_map(fun, axis_name="_devices", *, in_axes=0):
    """Map `fun` over axes, given as for `jax.vmap`, one slice per device."""

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
        mesh = mesh_for(args, kwargs)

        @jax.shard_map(
            mesh=mesh, in_specs=specs, out_specs=spec(0), check_vma=False
        )
        def on_device(*block):
            row, named = at_axes(jnp.squeeze, specs, block)
            return at_axes(jnp.expand_dims, spec(0), fun(*row, **named))

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
