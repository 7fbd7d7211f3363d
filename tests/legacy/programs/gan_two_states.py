"""Two networks that train against each other, each with its own replicated state."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.interpreters import pxla


def generator(params, z):
    return z @ params["w"] + params["b"]


def discriminator(params, x):
    return jnp.tanh(x @ params["w1"]) @ params["w2"]


def d_loss(d_params, g_params, real, z):
    fake = generator(g_params, z)
    return jnp.mean((discriminator(d_params, real) - 1) ** 2 + discriminator(d_params, fake) ** 2)


def g_loss(g_params, d_params, z):
    return jnp.mean((discriminator(d_params, generator(g_params, z)) - 1) ** 2)


def sgd(params, grads):
    return jax.tree_util.tree_map(lambda p, g: p - 0.05 * lax.pmean(g, "i"), params, grads)


@functools.partial(jax.pmap, axis_name="i", donate_argnums=(0,))
def d_step(d_params, g_params, real, key):
    z = random.uniform(key, real.shape)
    loss, grads = jax.value_and_grad(d_loss)(d_params, g_params, real, z)
    return sgd(d_params, grads), lax.pmean(loss, "i")


@functools.partial(jax.pmap, axis_name="i", donate_argnums=(0,))
def g_step(g_params, d_params, real, key):
    z = random.uniform(key, real.shape)
    loss, grads = jax.value_and_grad(g_loss)(g_params, d_params, z)
    return sgd(g_params, grads), lax.pmean(loss, "i")


def main():
    devices = jax.local_devices()
    n = len(devices)
    k1, k2, k3, key = random.split(random.PRNGKey(2), 4)
    d_params = {"w1": random.uniform(k1, (4, 8)) - 0.5, "w2": random.uniform(k2, (8,)) - 0.5}
    g_params = {"w": random.uniform(k3, (4, 4)) - 0.5, "b": jnp.zeros(4)}
    d_params, g_params = jax.device_put_replicated((d_params, g_params), devices)
    assert all(isinstance(x.sharding, jax.sharding.PmapSharding) for x in d_params.values())
    real = np.random.RandomState(4).uniform(size=(n, 2, 4)).astype(np.float32) + 1
    losses = []
    for _ in range(5):
        key, kd, kg = random.split(key, 3)
        d_params, dl = d_step(d_params, g_params, real, random.split(kd, n))
        g_params, gl = g_step(g_params, d_params, real, random.split(kg, n))
        losses.append((float(dl[0]), float(gl[0])))
    spec = d_params["w1"].sharding.sharding_spec
    assert isinstance(spec, pxla.ShardingSpec)
    assert isinstance(spec.sharding[0], (pxla.Chunked, pxla.Unstacked))
    return {"losses": np.float32(losses), "d": d_params["w1"][0], "g": g_params["w"][-1]}


if __name__ == "__main__":
    RESULTS = main()
