"""PPO on a pole to balance: many environments on each device, gradients averaged, pure JAX."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

ENVS, STEPS, UPDATES, EPOCHS = 16, 32, 25, 4  # environments on each device
GAMMA, LAMBDA, CLIP = 0.97, 0.9, 0.2
optimizer = optax.adam(2e-2)


def device_put_replicated(x, devices):
    """Put `x` on every device, as the rows of one array per leaf."""
    mesh = jax.sharding.Mesh(devices, ("devices",))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
    stack = jax.jit(jnp.broadcast_to, static_argnums=1, out_shardings=rows)
    x = jax.device_put(x, whole)
    return jax.tree.map(lambda y: stack(y, (mesh.size, *y.shape)), x)


def per_row(f):
    """Let `f` see the one row of a block, and return a block of one row."""

    @functools.wraps(f)
    def on_block(*block):
        row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block


def reset(key):
    return jax.random.uniform(key, (2,), minval=-0.2, maxval=0.2)


def env_step(key, pole, action):
    """Angle and speed of a pole that falls over; it starts anew when it has."""
    angle, speed = pole
    speed = speed + 0.1 * (jnp.sin(angle) * 9.8 + (2.0 * action - 1) * 5)
    pole = jnp.array([angle + 0.1 * speed, speed])
    fallen = jnp.abs(pole[0]) > 0.8
    return jnp.where(fallen, reset(key), pole), 1.0 - fallen, fallen


def init_params(key):
    k1, k2, k3 = jax.random.split(key, 3)
    return {
        "hidden": jax.random.normal(k1, (2, 32)),
        "policy": 0.01 * jax.random.normal(k2, (32, 2)),
        "value": 0.01 * jax.random.normal(k3, (32,)),
        "bias": jnp.zeros(33),
    }


def network(params, pole):
    hidden = jnp.tanh(pole @ params["hidden"] + params["bias"][1:])
    value = hidden @ params["value"] + params["bias"][0]
    return jax.nn.log_softmax(hidden @ params["policy"]), value


def rollout(params, key, poles):
    def one_step(poles, key):
        act_key, env_key = jax.random.split(key)
        logits, value = network(params, poles)
        action = jax.random.categorical(act_key, logits)
        log_prob = jnp.take_along_axis(logits, action[:, None], 1)[:, 0]
        env_keys = jax.random.split(env_key, ENVS)
        new, reward, done = jax.vmap(env_step)(env_keys, poles, action)
        return new, (poles, action, log_prob, value, reward, done)

    return lax.scan(one_step, poles, jax.random.split(key, STEPS))


def advantages(values, rewards, dones, last_value):
    def backwards(carry, step):
        advantage, next_value = carry
        value, reward, done = step
        delta = reward + GAMMA * next_value * (1 - done) - value
        advantage = delta + GAMMA * LAMBDA * (1 - done) * advantage
        return (advantage, value), advantage

    start = (jnp.zeros_like(last_value), last_value)
    return lax.scan(backwards, start, (values, rewards, dones), reverse=True)[1]


def ppo_loss(params, poles, actions, old_log_probs, advantage, returns):
    logits, value = network(params, poles)
    log_prob = jnp.take_along_axis(logits, actions[..., None], -1)[..., 0]
    ratio = jnp.exp(log_prob - old_log_probs)
    clipped = jnp.clip(ratio, 1 - CLIP, 1 + CLIP)
    policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    return policy_loss + 0.5 * ((value - returns) ** 2).mean()


mesh = jax.sharding.Mesh(jax.devices(), ("devices",))
spec = jax.P("devices")


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
@per_row
def update(params, opt_state, key, poles):
    key, rollout_key = jax.random.split(key)
    poles, (seen, actions, log_probs, values, rewards, dones) = rollout(params, rollout_key, poles)
    last_value = network(params, poles)[1]
    advantage = advantages(values, rewards, dones, last_value)
    returns = advantage + values
    # Normalised over all devices.
    mean = lax.pmean(advantage.mean(), "devices")
    var = lax.pmean(((advantage - mean) ** 2).mean(), "devices")
    advantage = (advantage - mean) / jnp.sqrt(var + 1e-8)

    def epoch(carry, _):
        params, opt_state = carry
        grads = jax.grad(ppo_loss)(params, seen, actions, log_probs, advantage, returns)
        grads = lax.pmean(grads, "devices")
        updates, opt_state = optimizer.update(grads, opt_state)
        return (optax.apply_updates(params, updates), opt_state), None

    (params, opt_state), _ = lax.scan(epoch, (params, opt_state), None, length=EPOCHS)
    metrics = {"falls": lax.psum(dones.sum(), "devices"), "value": values.mean()}
    return params, opt_state, key, poles, metrics


def main():
    n = jax.local_device_count()
    init_key, env_key, key = jax.random.split(jax.random.PRNGKey(0), 3)
    params = init_params(init_key)
    params, opt_state = device_put_replicated(
        (params, optimizer.init(params)), jax.local_devices()
    )
    poles = jax.vmap(jax.vmap(reset))(jax.random.split(env_key, (n, ENVS)))
    keys = jax.random.split(key, n)
    for step in range(UPDATES):
        params, opt_state, keys, poles, metrics = update(params, opt_state, keys, poles)
        if step % 8 == 0 or step == UPDATES - 1:
            metrics = jax.tree.map(np.asarray, metrics)
            falls = metrics["falls"][0] / (n * ENVS * STEPS)
            print(
                f"update {step:2d}  falls {100 * falls:.3f} %  value {metrics['value'].mean():.5f}"
            )


if __name__ == "__main__":
    main()
