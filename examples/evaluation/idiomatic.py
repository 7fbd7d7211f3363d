"""Evaluation of every example once, on global arrays: sums of what the mask lets count."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

EXAMPLES, BATCH = 1000, 64  # 15 batches and 40 examples
CLASSES = 5


def predict(params, x):
    return jnp.tanh(x @ params["hidden"]) @ params["out"]


@jax.jit
def eval_step(params, batch):
    logits = jax.nn.log_softmax(predict(params, batch["x"]))
    loss = -jnp.take_along_axis(logits, batch["y"][:, None], 1)[:, 0]
    right = logits.argmax(-1) == batch["y"]
    mask = batch["mask"]
    return {"loss": (loss * mask).sum(), "right": (right * mask).sum(), "count": mask.sum()}


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


def evaluate(params, x, y, sharding):
    totals = {"loss": 0.0, "right": 0.0, "count": 0.0}
    for i in range(0, EXAMPLES, BATCH):
        batch = padded(x[i : i + BATCH], y[i : i + BATCH])
        # Added on the devices: the loop does not wait for them.
        totals = jax.tree.map(jnp.add, totals, eval_step(params, jax.device_put(batch, sharding)))
    return jax.device_get(totals)


def main():
    rng = np.random.default_rng(1)
    params = {"hidden": 3 * np.eye(CLASSES), "out": np.eye(CLASSES) + 0.1}
    params["hidden"] += 0.3 * rng.normal(size=(CLASSES, CLASSES))
    params = jax.tree.map(lambda p: p.astype(np.float32), params)
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    over_batch, replicated = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    params = jax.device_put(params, replicated)
    x, y = dataset()
    totals = evaluate(params, x, y, over_batch)
    count = totals["count"]
    print(f"{count:.0f} examples  loss {totals['loss'] / count:.6f}")
    print(f"accuracy {totals['right'] / count:.4f}")
    rest = x[-37:]
    batch = jax.device_put(padded(rest, y[-37:])["x"], over_batch)
    logits = jax.jit(predict)(params, batch)[: len(rest)]
    print(f"logits of {len(logits)}: {np.asarray(logits).sum():.5f}")


if __name__ == "__main__":
    main()
