"""Training with haiku on global arrays: batch norm over the whole batch, one key for dropout."""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

CLASSES, BATCH, STEPS = 4, 64, 30


def forward(x, is_training):
    x = hk.Linear(32)(x)
    x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, is_training))
    if is_training:
        x = hk.dropout(hk.next_rng_key(), 0.1, x)
    return hk.Linear(CLASSES)(x)


net = hk.transform_with_state(forward)
optimizer = optax.sgd(0.1, momentum=0.9)


def loss_fn(params, state, key, batch):
    logits, state = net.apply(params, state, key, batch["x"], is_training=True)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"])
    return losses.mean(), state


@jax.jit(donate_argnames=("params", "state", "opt_state"))
def update(params, state, opt_state, key, batch):
    grad_fn = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, state), grads = grad_fn(params, state, key, batch)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), state, opt_state, loss


@jax.jit
def accuracy(params, state, batch):
    logits, _ = net.apply(params, state, None, batch["x"], is_training=False)
    return jnp.mean(logits.argmax(-1) == batch["y"])


def batches():
    """Points around one of four centres."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, 8))
    while True:
        y = rng.integers(CLASSES, size=BATCH)
        x = centres[y] + 0.8 * rng.normal(size=(BATCH, 8))
        yield {"x": x.astype(np.float32), "y": y.astype(np.int32)}


def main():
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    over_batch, replicated = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    data = (jax.device_put(batch, over_batch) for batch in batches())
    init_key, key = jax.random.split(jax.random.PRNGKey(0))
    params, state = net.init(init_key, next(data)["x"], is_training=True)
    params, state = jax.device_put((params, state), replicated)
    opt_state = jax.device_put(optimizer.init(params), replicated)
    for step, batch in zip(range(STEPS), data, strict=False):
        step_key = jax.random.fold_in(key, step)
        params, state, opt_state, loss = update(params, state, opt_state, step_key, batch)
        if step % 10 == 0 or step == STEPS - 1:
            print(f"step {step:2d}  loss {loss:.6f}")
    print(f"accuracy {accuracy(params, state, next(data)):.4f}")
    print(f"{hk.data_structures.tree_size(params)} parameters")


if __name__ == "__main__":
    main()
