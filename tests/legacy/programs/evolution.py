"""Evolution strategies: mirrored perturbations on each device, fitness gathered by all."""

import jax
import jax.numpy as jnp
from jax import lax, random

POPULATION = 6  # on each device


def fitness(theta):
    return -jnp.sum((theta - jnp.arange(theta.size)) ** 2)


def generation(theta, key, sigma):
    noise = random.uniform(key, (POPULATION, theta.size)) * 2 - 1
    noise = jnp.concatenate([noise, -noise])
    scores = jax.vmap(fitness)(theta + sigma * noise)
    everyone = lax.all_gather(scores, "pop")
    mine = (everyone[lax.axis_index("pop")] - everyone.mean()) / everyone.std()
    gradient = lax.psum(mine @ noise, "pop") / everyone.size
    # The best of each device goes to its neighbour.
    n = lax.psum(1, "pop")
    best = lax.ppermute(scores.max(), "pop", [(i, (i + 1) % n) for i in range(n)])
    return theta + 2.0 * gradient, everyone.mean(), best


step = jax.pmap(generation, "pop", in_axes=(None, 0, None), out_axes=(None, None, 0))


def main():
    devices = jax.local_devices()
    theta = jnp.zeros(5)
    key = random.PRNGKey(11)
    history = []
    for _ in range(8):
        key, use = random.split(key)
        keys = jax.device_put_sharded(list(random.split(use, len(devices))), devices)
        theta, mean, best = step(theta, keys, 0.3)
        history.append(mean)
    return {"theta": theta, "history": jnp.stack(history), "best": best}


if __name__ == "__main__":
    RESULTS = main()
