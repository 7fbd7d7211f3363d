"""Policy gradient: environments rolled out by scan on every device, keys carried by the state."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import random

ENVS, STEPS = 3, 12


class Env(NamedTuple):
    position: jnp.ndarray
    velocity: jnp.ndarray


class State(NamedTuple):
    env: Env
    key: jnp.ndarray
    theta: jnp.ndarray
    returns: jnp.ndarray


def reset(key):
    position = random.uniform(key, (ENVS,), minval=-1.0, maxval=1.0)
    return Env(position, jnp.zeros(ENVS))


def env_step(env, action):
    velocity = 0.9 * env.velocity + 0.1 * action
    position = env.position + velocity
    return Env(position, velocity), -(position**2)


def rollout(theta, env, key):
    def step(carry, _):
        env, key = carry
        key, use = random.split(key)
        mean = theta[0] * env.position + theta[1] * env.velocity
        noise = random.uniform(use, (ENVS,)) - 0.5
        env, reward = env_step(env, mean + noise)
        return (env, key), (reward, noise, env.position)

    return jax.lax.scan(step, (env, key), None, length=STEPS)


@functools.partial(jax.pmap, axis_name="devices")
def update(state):
    (env, key), (rewards, noises, positions) = rollout(state.theta, state.env, state.key)
    returns = rewards[::-1].cumsum(0)[::-1]
    baseline = jax.lax.pmean(returns.mean(), "devices")
    weight = (returns - baseline) * noises
    gradient = jnp.stack([(weight * positions).mean(), weight.mean()])
    theta = state.theta + 0.05 * jax.lax.pmean(gradient, "devices")
    return State(env, key, theta, jax.lax.pmean(rewards.sum(0).mean(), "devices"))


def main():
    devices = jax.local_devices()
    keys = random.split(random.PRNGKey(3), len(devices) + 1)
    envs = [reset(k) for k in keys[1:]]
    state = State(
        env=jax.device_put_sharded(envs, devices),
        key=jax.device_put_sharded(list(keys[1:]), devices),
        theta=jax.device_put_replicated(jnp.zeros(2), devices),
        returns=jax.device_put_replicated(jnp.zeros(()), devices),
    )
    curve = []
    for _ in range(5):
        state = update(state)
        curve.append(state.returns[0])
    theta = state.theta[0]
    # Evaluate on one device, with what another one holds.
    (final, _), (rewards, _, _) = jax.jit(rollout)(theta, Env(*(x[2] for x in state.env)), keys[0])
    return {
        "curve": jnp.stack(curve),
        "theta": theta,
        "rewards": rewards,
        "position": final.position,
        "keys": state.key,
    }


if __name__ == "__main__":
    RESULTS = main()
