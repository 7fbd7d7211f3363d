"""Training in many processes on global arrays: each process brings its part of every batch."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

STEPS, BATCH = 40, 64  # of all processes together

jax.distributed.initialize()


@jax.jit(donate_argnames="params")
def train_step(params, x, y):
    def loss_fn(params):
        return jnp.mean((jnp.tanh(x @ params["w"]) @ params["v"] - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def local_batches():
    """The part of each batch that is this process's."""
    rng = np.random.default_rng(0)
    slope = rng.normal(size=(4, 1)).astype(np.float32)
    per_host = BATCH // jax.process_count()
    mine = slice(jax.process_index() * per_host, (jax.process_index() + 1) * per_host)
    while True:
        x = rng.normal(size=(BATCH, 4)).astype(np.float32)
        yield x[mine], np.sin(x @ slope)[mine]


def main():
    rng = np.random.default_rng(1)
    params = {
        "w": rng.normal(size=(4, 16)).astype(np.float32) / 2,
        "v": rng.normal(size=(16, 1)).astype(np.float32) / 4,
    }
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    over_batch, replicated = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    params = jax.device_put(params, replicated)
    for step, part in zip(range(STEPS), local_batches(), strict=False):
        x, y = (jax.make_array_from_process_local_data(over_batch, a) for a in part)
        params, loss = train_step(params, x, y)
        if jax.process_index() == 0 and (step % 10 == 0 or step == STEPS - 1):
            print(f"step {step:2d}  loss {float(loss):.6f}")
    multihost_utils.assert_equal(jax.device_get(params), "processes disagree")
    if jax.process_index() == 0:
        print(f"{jax.device_count()} devices in {jax.process_count()} processes agree")


if __name__ == "__main__":
    main()
