"""Markov chains, one a device: Metropolis steps, each with its own key and starting point."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.lib import xla_bridge


def log_density(x):
    return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x[0] * x[1])


def chain(key, start, step_size, samples):
    def step(carry, key):
        x, accepted, narrowest = carry
        propose, decide = random.split(key)
        y = x + step_size * (random.uniform(propose, x.shape) - 0.5)
        margin = log_density(y) - log_density(x) - jnp.log(random.uniform(decide))
        x = jnp.where(margin > 0, y, x)
        return (x, accepted + (margin > 0), jnp.minimum(narrowest, abs(margin))), x

    keys = random.split(key, samples)
    (_, accepted, narrowest), xs = jax.lax.scan(step, (start, 0, jnp.inf), keys)
    return xs, accepted, narrowest


run_chains = jax.pmap(chain, in_axes=(0, 0, None), static_broadcasted_argnums=3)


def main():
    chains = jax.local_device_count()
    assert xla_bridge.get_backend().platform == jax.devices()[0].platform
    keys = random.split(random.PRNGKey(5), chains)
    starts = jax.device_put(jnp.linspace(-2, 2, chains * 3).reshape(chains, 3), jax.devices()[1])
    xs, accepted, narrowest = run_chains(keys, starts, 1.5, 40)
    means = [np.asarray(xs[i]).mean(0) for i in range(chains)]
    between = np.var(np.stack(means), axis=0)
    last = xs[-1]
    first, *_ = xs
    return {
        "means": np.stack(means),
        "between": between,
        "accepted": accepted,
        "narrowest": narrowest,
        "drift": last - first,
    }


if __name__ == "__main__":
    RESULTS = main()
