"""Evaluation of every example once: the last batch is padded, and padding does not count."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils
from flax.training import common_utils
from jax import lax

EXAMPLES, BATCH = 1000, 64  # 15 batches and 40 examples
CLASSES = 5


def per_row(f):
    """Let `f` see the one row of a block, and return a block of one row."""

    @functools.wraps(f)
    def on_block(*block):
        row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block


def predict(params, x):
    return jnp.tanh(x @ params["hidden"]) @ params["out"]


mesh = jax.sharding.Mesh(jax.devices(), ("batch",))
over_devices = functools.partial(
    jax.shard_map,
    mesh=mesh,
    in_specs=jax.P("batch"),
    out_specs=jax.P("batch"),
    check_vma=False,
)


@jax.jit
@over_devices
@per_row
def eval_step(params, batch):
    logits = jax.nn.log_softmax(predict(params, batch["x"]))
    loss = -jnp.take_along_axis(logits, batch["y"][:, None], 1)[:, 0]
    right = logits.argmax(-1) == batch["y"]
    mask = batch["mask"]
    sums = {"loss": (loss * mask).sum(), "right": (right * mask).sum(), "count": mask.sum()}
    return lax.psum(sums, axis_name="batch")


# Takes batches of any size: pads them to a multiple of the devices, and takes that off again.
p_predict = jax_utils.pad_shard_unpad(jax.jit(
    over_devices(per_row(predict))
), static_argnums=(0,))


def dataset():
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=EXAMPLES)
    x = np.eye(CLASSES)[y] + 0.4 * rng.normal(size=(EXAMPLES, CLASSES))
    return x.astype(np.float32), y


def padded(x, y):
    """A batch of full size, with a mask of what is in it."""
    missing = BATCH - len(x)
    return {
        "x": np.pad(x, ((0, missing), (0, 0))),
        "y": np.pad(y, (0, missing)),
        "mask": np.pad(np.ones(len(x), np.float32), (0, missing)),
    }


def evaluate(params, x, y):
    totals = []
    for i in range(0, EXAMPLES, BATCH):
        batch = padded(x[i : i + BATCH], y[i : i + BATCH])
        totals.append(eval_step(params, common_utils.shard(batch)))
    totals = common_utils.get_metrics(totals)
    return jax.tree.map(np.sum, totals)


def main():
    rng = np.random.default_rng(1)
    params = {"hidden": 3 * np.eye(CLASSES), "out": np.eye(CLASSES) + 0.1}
    params["hidden"] += 0.3 * rng.normal(size=(CLASSES, CLASSES))
    params = jax.tree.map(lambda p: p.astype(np.float32), params)
    params = jax_utils.replicate(params)
    x, y = dataset()
    totals = evaluate(params, x, y)
    count = totals["count"]
    print(f"{count:.0f} examples  loss {totals['loss'] / count:.6f}")
    print(f"accuracy {totals['right'] / count:.4f}")
    logits = p_predict(params, x[-37:])
    print(f"logits of {len(logits)}: {np.asarray(logits).sum():.5f}")


if __name__ == "__main__":
    main()
