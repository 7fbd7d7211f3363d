"""Evaluation of every example once: the last batch is padded, and padding does not count."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils
from flax.training import common_utils
from jax import lax


def shard_map_per_device(f, axis_name="devices"):
    """`jax.shard_map` of `f`, with one row of every argument on each device.

    `f` sees its row without the leading axis, which is put back on what it returns. The mesh is
    made when `f` is traced: before that, no device is touched.
    """

    @functools.wraps(f)
    def mapped(*args, **kwargs):
        def one_row(args, kwargs):
            args, kwargs = jax.tree.map(lambda x: jnp.squeeze(x, 0), (args, kwargs))
            return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*args, **kwargs))

        rows = len(jax.tree.leaves((args, kwargs))[0])
        devices = jax.devices()[: rows * jax.process_count()]
        mesh = jax.sharding.Mesh(np.array(devices), (axis_name,))
        spec = jax.P(axis_name)
        sharded = jax.shard_map(one_row, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return sharded(args, kwargs)

    return mapped


def device_put_replicated(x, devices):
    """Put `x` on each device: one array a leaf, whose rows are never stacked elsewhere."""
    sharding = row_per_device(devices)
    copies = jax.device_put(jax.tree.map(as_row, x), jax.NamedSharding(sharding.mesh, jax.P()))
    return jax.tree.map(
        lambda copy: join_rows([shard.data for shard in copy.addressable_shards], sharding), copies
    )


def replicate(tree, devices=None):
    """Put `tree` on each of `devices`, the local ones unless given."""
    return device_put_replicated(tree, devices or jax.local_devices())


def row_per_device(devices):
    """The sharding of arrays that have one row on each device."""
    return jax.NamedSharding(jax.sharding.Mesh(np.array(devices), ("devices",)), jax.P("devices"))


def as_row(x):
    """`x` with a leading axis of one; a NumPy array is only copied to where it goes."""
    return x[None] if isinstance(x, np.ndarray) else add_leading_axis(x)


add_leading_axis = jax.jit(lambda x: x[None])


def join_rows(rows, sharding):
    """One array of rows that are where they belong."""
    if jax.typeof(rows[0]).weak_type:  # as Python scalars are; made of shards it would be lost
        stacked = jnp.concatenate(jax.device_put(list(rows), rows[0].sharding))
        return jax.device_put(stacked, sharding)
    shape = (len(rows), *rows[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, sharding, list(rows))


EXAMPLES, BATCH = 1000, 64  # 15 batches and 40 examples
CLASSES = 5


def predict(params, x):
    return jnp.tanh(x @ params["hidden"]) @ params["out"]


@jax.jit
@functools.partial(shard_map_per_device, axis_name="batch")
def eval_step(params, batch):
    logits = jax.nn.log_softmax(predict(params, batch["x"]))
    loss = -jnp.take_along_axis(logits, batch["y"][:, None], 1)[:, 0]
    right = logits.argmax(-1) == batch["y"]
    mask = batch["mask"]
    sums = {"loss": (loss * mask).sum(), "right": (right * mask).sum(), "count": mask.sum()}
    return lax.psum(sums, axis_name="batch")


# Takes batches of any size: pads them to a multiple of the devices, and takes that off again.
p_predict = jax_utils.pad_shard_unpad(jax.jit(
    shard_map_per_device(predict)
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
    params = replicate(params)
    x, y = dataset()
    totals = evaluate(params, x, y)
    count = totals["count"]
    print(f"{count:.0f} examples  loss {totals['loss'] / count:.6f}")
    print(f"accuracy {totals['right'] / count:.4f}")
    logits = p_predict(params, x[-37:])
    print(f"logits of {len(logits)}: {np.asarray(logits).sum():.5f}")


if __name__ == "__main__":
    main()
