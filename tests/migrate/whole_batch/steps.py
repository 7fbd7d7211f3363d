"""Data-parallel steps: those that become `jax.jit` of the whole batch, and those that do not.

Each is the body of `step(params, batch)`, in a program that trains with it.
"""

from __future__ import annotations

PROGRAM = """\
import functools
from typing import NamedTuple
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RATE = 0.1


class Metrics(NamedTuple):
    loss: jax.Array
    right: jax.Array


def model(params, x):
    return jnp.tanh(x @ params["w"] + params["b"])


def sgd(params, grads):
    return jax.tree.map(lambda p, g: p - RATE * g, params, grads)


def step(params, batch):
BODY


p_step = jax.pmap(step, axis_name="batch")


def data(rows=16):
    x = np.random.RandomState(0).randn(rows, 3).astype(np.float32)
    return {"x": x, "y": x[:, :2] * 2 + 1, "label": (x[:, 0] > 0).astype(np.int32)}


def replicate(tree):
    return jax.device_put_replicated(tree, jax.local_devices())


def unreplicate(tree):
    return jax.tree.map(lambda x: x[0], tree)


def shard(tree):
    n = jax.local_device_count()
    return jax.tree.map(lambda x: x.reshape((n, -1) + x.shape[1:]), tree)


def main():
    params = {"w": jnp.ones((3, 2)) * 0.1, "b": jnp.zeros(2)}
    params = replicate(params)
    for _ in range(2):
        params, metrics = p_step(params, shard(data()))
    return jax.device_get(unreplicate((params, metrics)))
"""
_MSE = """    def loss_fn(p):
        return jnp.mean((model(p, batch["x"]) - batch["y"]) ** 2)

"""
_GRAD = "    loss, grads = jax.value_and_grad(loss_fn)(params)\n"
_END = '    return sgd(params, lax.pmean(grads, "batch")), lax.pmean(loss, "batch")'
_USUAL = _MSE + _GRAD

ALLOWED: dict[str, str] = {
    "the usual step": _USUAL + _END,
    "the mean of a mean and of what is the same": _USUAL
    + '    return sgd(params, lax.pmean(grads, "batch")), lax.pmean(2 * loss + 1, "batch")',
    "reduced in a function": """    def reduce(tree):
        return lax.pmean(tree, "batch")

"""
    + _USUAL
    + "    return sgd(params, reduce(grads)), reduce(loss)",
    "reduced together": _USUAL
    + '    loss, grads = lax.pmean((loss, grads), axis_name="batch")\n'
    + "    return sgd(params, grads), {'loss': loss}",
    "reduced after the rate": _USUAL
    + '    update = lax.pmean(jax.tree.map(lambda g: -RATE * g, grads), "batch")\n'
    + '    return jax.tree.map(jnp.add, params, update), lax.pmean(loss, "batch")',
    "a penalty of the parameters": """    def loss_fn(p):
        penalty = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))
        return ((model(p, batch["x"]) - batch["y"]) ** 2).mean() + 1e-3 * penalty

"""
    + _GRAD
    + _END,
    "metrics beside the loss": """    def loss_fn(p):
        logits = model(p, batch["x"])
        one_hot = jax.nn.one_hot(batch["label"], 2)
        loss = -jnp.mean(jnp.sum(one_hot * jax.nn.log_softmax(logits), axis=-1))
        return loss, jnp.mean(jnp.argmax(logits, -1) == batch["label"])

    (loss, right), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    metrics = {"loss": loss}
    metrics["right"] = right
    return sgd(params, lax.pmean(grads, "batch")), lax.pmean(metrics, "batch")""",
    "a record of metrics": _USUAL
    + '    metrics = Metrics(loss, jnp.mean(batch["label"] == 1))\n'
    + '    return sgd(params, lax.pmean(grads, "batch")), lax.pmean(metrics, "batch")',
    "sums of rows, summed": """    def loss_fn(p):
        return jnp.sum((model(p, batch["x"]) - batch["y"]) ** 2) / 16

"""
    + _GRAD
    + '    count = lax.psum(batch["x"].shape[0], "batch")\n'
    + '    return sgd(params, lax.psum(grads, "batch")), lax.psum(loss, "batch") / count',
    "a sum by the number of rows": """    def loss_fn(p):
        rows, _ = batch["x"].shape
        return jnp.sum((model(p, batch["x"]) - batch["y"]) ** 2) / rows

"""
    + _GRAD
    + _END,
    "each row by vmap": """    def of_row(p, x, y):
        return jnp.max((model(p, x) - y) ** 2)

    def loss_fn(p):
        return jnp.mean(jax.vmap(of_row, in_axes=(None, 0, 0))(p, batch["x"], batch["y"]))

"""
    + _GRAD
    + _END,
    "a loop over layers, rows reshaped": """    def loss_fn(p):
        x = batch["x"].reshape(batch["x"].shape[0], -1)
        for _ in range(2):
            x = jnp.tanh(x)
        return jnp.mean((x @ p["w"] + p["b"] - batch["y"]) ** 2, axis=(0, 1))

"""
    + _GRAD
    + _END,
    "a branch on a setting": """    def loss_fn(p):
        out = model(p, batch["x"])
        if RATE > 1:
            out = jax.nn.relu(out)
        return jnp.mean(jnp.abs(out - batch["y"]) if RATE > 2 else (out - batch["y"]) ** 2)

"""
    + _GRAD
    + _END,
    "clipped after the mean": _USUAL
    + '    grads = lax.pmean(grads, "batch")\n'
    + "    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))\n"
    + "    grads = jax.tree.map(lambda g: g / jnp.maximum(1.0, norm), grads)\n"
    + '    return sgd(params, grads), lax.pmean(loss, "batch")',
    "a table of rows": """    def loss_fn(p):
        return jnp.mean((p["w"][batch["label"]] - batch["y"]) ** 2)

"""
    + _GRAD
    + _END,
}

REFUSED: dict[str, tuple[str, str]] = {
    "a sum of means": (
        _USUAL + '    return sgd(params, lax.psum(grads, "batch")), lax.pmean(loss, "batch")',
        "reduces a mean over the rows of one device",
    ),
    "a mean of sums": (
        _USUAL.replace("jnp.mean", "jnp.sum") + _END,
        "reduces a sum over the rows of one device",
    ),
    "a sum of what is the same": (
        _USUAL + '    return sgd(params, lax.pmean(grads, "batch")), loss_of(lax.psum(1, "batch"))',
        "reduces the same on all devices",
    ),
    "the mean is in a function of it": (
        _USUAL
        + '    return sgd(params, lax.pmean(grads, "batch")), lax.pmean(jnp.exp(loss), "batch")',
        "`jnp.exp(loss)` computes with a mean over the rows of one device before it is reduced",
    ),
    "clipped before the mean": (
        _USUAL + "    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))\n" + _END,
        "is given a mean over the rows of one device",
    ),
    "a product of means": (
        _USUAL
        + '    return sgd(params, lax.pmean(grads, "batch")), lax.pmean(loss * loss, "batch")',
        "`loss * loss` computes with a mean over the rows of one device",
    ),
    "the device is asked for": (
        _USUAL
        + '    key = jax.random.fold_in(jax.random.key(0), lax.axis_index("batch"))\n'
        + _END,
        "has no counterpart without devices",
    ),
    "gathered": (
        _USUAL + '    every = lax.all_gather(loss, "batch")\n' + _END,
        "has no counterpart without devices",
    ),
    "the statistics of a batch": (
        _USUAL.replace('batch["x"])', 'batch["x"] - batch["x"].mean(axis=0))') + _END,
        "computes with a mean over the rows of one device before it is reduced",
    ),
    "the variance of a batch": (
        _USUAL.replace('batch["x"])', 'batch["x"] / jnp.std(batch["x"], axis=0))') + _END,
        "combines the rows of one device",
    ),
    "noise of the shape of the batch": (
        _USUAL.replace(
            'batch["x"])',
            'batch["x"] + jax.random.normal(jax.random.key(0), batch["x"].shape))',
        )
        + _END,
        "`jax.random.normal` is given the number of rows on one device and is not followed",
    ),
    "rows compared with rows": (
        _USUAL.replace("return jnp.mean(", 'return jnp.mean(batch["x"] @ batch["x"].T + ') + _END,
        "is about all rows of a device",
    ),
    "some rows": (
        _USUAL.replace('batch["x"])', 'batch["x"][:1])') + _END,
        "takes some rows of each device",
    ),
    "a library": (
        _USUAL.replace("model(p, ", "np.asarray(p, ") + _END,
        "is given rows of the batch and is not followed",
    ),
    "reduced in what is differentiated": (
        _USUAL.replace("** 2)", '** 2) + lax.pmean(1.0, "batch")') + _END,
        "is in a function that is differentiated",
    ),
    "not reduced": (
        _USUAL + "    return sgd(params, grads), lax.pmean(loss, 'batch')",
        "it returns a mean over the rows of one device",
    ),
    "decided on each device": (
        _USUAL + "    if loss > 1:\n        loss = 2 * loss\n" + _END,
        "computes with a mean over the rows of one device",
    ),
    "another axis": (
        _USUAL + '    extra = lax.pmean(loss, "model")\n' + _END,
        "the axis of",
    ),
    "loops over the rows": (
        _USUAL.replace('batch["x"])', 'jnp.stack([row for row in batch["x"]], axis=1))') + _END,
        "are iterated over",
    ),
}


def program(body: str) -> str:
    """The program that trains with a step."""
    return PROGRAM.replace("BODY", body)
