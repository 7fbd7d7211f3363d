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


class Holder:
    def __init__(self, value):
        self.value = value


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

# Lines that stand in the usual step before its end, and why it is refused for them. `x` are rows,
# `loss` and `grads` are means over the rows of one device.
LINES: dict[str, tuple[str, str]] = {
    "a coroutine": ("async def later():\n        return loss\n    later()", "is not followed"),
    "a while loop": ("while False:\n        pass", "is not followed"),
    "changed in place": ("table = {}\n    table['a'] += loss", "a value is changed in place"),
    "an attribute is set": ("params.loss = loss", "`params.loss` is set"),
    "an item of an array is set": ("x[0] = loss", "`x[0]` is set"),
    "a part is unpacked": ("first, *rest = x", "a part of a value is unpacked"),
    "branches": ("out = loss if RATE > 1 else x", "branches give values of different kinds"),
    "a branch of statements": (
        "if RATE > 1:\n        out = loss\n    else:\n        out = x",
        "branches give values of different kinds",
    ),
    "a loop that changes kinds": (
        "out = x\n    for _ in range(2):\n        out = jnp.mean(x)",
        "branches give values of different kinds",
    ),
    "a context": ("with open(loss) as f:\n        pass", "is given a mean"),
    "a context with a name": ("with jax.disable_jit() as f:\n        pass", "the context is not"),
    "an assertion": ("assert loss < 3", "computes with a mean"),
    "the rows transposed": ("out = x.T", "is about all rows of a device"),
    "an unknown part of the shape": ("out = x.shape[-RATE]", "may be the number of rows"),
    "a table looked up by a mean": ('out = params["w"][loss]', "is not followed"),
    "an index that differs": ("out = x[:, loss]", "is not the same on all devices"),
    "a slice that differs": ("out = x[:, : loss]", "is not the same on all devices"),
    "not of a mean": ("out = ~loss", "computes with a mean over the rows"),
    "a power of a mean": ("out = loss**2", "computes with a mean over the rows"),
    "rows and a mean": ("out = x * loss", "before it is reduced over the devices"),
    "rows and the number of rows": ("out = x * x.shape[0]", "computes with"),
    "keys that are not known": ("out = {loss: x}", "the keys of"),
    "a set of rows": ("out = {k: v for k, v in enumerate(x)}", "are iterated over"),
    "keys computed from rows": (
        "out = {x: 1 for _ in range(2)}",
        "the keys of a dict are computed from rows",
    ),
    "shown": ('out = f"{loss}"', "shows a value of one device"),
    "arguments unpacked": ("out = jnp.add(*(x, x))", "arguments are unpacked into a call"),
    "keywords unpacked": ("out = jnp.mean(x, **{})", "arguments are unpacked into a call"),
    "an option of a collective": (
        'out = lax.pmean(loss, "batch", axis_index_groups=[[0]])',
        "the axis of",
    ),
    "a function is reduced": ('out = lax.pmean(model, "batch")', "reduces a function"),
    "a product with rows on the right": ("out = jnp.dot(x, x)", "is not followed"),
    "softmax over the rows": ("out = jax.nn.softmax(x, axis=0)", "combines the rows of one device"),
    "an axis that is not known": ("out = jnp.max(x, axis=RATE)", "combines the rows of one device"),
    "a mean over an axis that is not known": (
        "out = jnp.mean(x, axis=RATE)",
        "may be that of the rows",
    ),
    "options of a mean": ("out = jnp.mean(x, where=x > 0)", "the options of"),
    "the mean of a number of rows": ("out = jnp.mean(x.shape[0])", "computes with"),
    "rows reshaped away": ("out = x.reshape(-1)", "may move rows"),
    "rows reshaped by a number": ("out = jnp.reshape(x, (2, -1))", "may move rows"),
    "options of a gradient": (
        "out = jax.grad(loss_fn, holomorphic=True)(params)",
        "the options of",
    ),
    "a gradient of nothing": ("out = jax.grad(loss_fn, argnums=-1)(params)", "the options of"),
    "the gradient of rows": (
        "out = jax.grad(lambda p: model(p, x))(params)",
        "the gradient is not that of a mean",
    ),
    "a gradient for the rows": (
        "out = jax.grad(lambda v: jnp.mean(v))(x)",
        "with respect to something else than what all devices share",
    ),
    "options of vmap": ("out = jax.vmap(model, axis_size=4)(params, x)", "is not followed"),
    "vmap over the parameters": (
        "out = jax.vmap(lambda p: p)(params)",
        "vmap is over something else than the rows",
    ),
    "vmap with keywords": ("out = jax.vmap(lambda v: v)(v=x)", "the arguments of vmap"),
    "too many arguments": ("out = sgd(x, x, x)", "its arguments cannot be matched"),
    "functions that call one another": (
        "def again(v):\n        return again(v)\n    again(x)",
        "functions call one another too deeply",
    ),
    "a decorator": (
        "@jax.vmap\n    def inner(v):\n        return v\n    inner(x)",
        "is not followed",
    ),
    "a method of rows": ("out = x.sort()", "computes with rows of the batch"),
    "a conversion to integers": ("out = loss.astype(jnp.int32)", "computes with a mean"),
    "rows made an object": ("out = Holder(x)", "an object of Holder is made of values"),
}
# Lines that change nothing: the step is rewritten with them.
HARMLESS: dict[str, str] = {
    "nothing": "pass",
    "an import": "import math\n    from math import pi",
    "an assertion on a setting": "assert RATE < 1",
    "a context of nothing": 'with jax.named_scope("step"):\n        x = x * 2',
    "rows unpacked by the loop": "for key, value in batch.items():\n        out = value * 2",
    "a loop over two trees": "for p, q in zip(params.values(), params.values()):\n        out = p",
    "numbered layers": "for k, p in enumerate([1, 2]):\n        x = x * p + k",
    "the type of an array": "out = jnp.zeros(x.shape[1:], x.dtype)",
    "a list with a star": "out = [*[x, x], x]",
    "a dict of dicts": "out = {**{'a': x}, 'b': {'c': x}}",
    "the other names of operations": "out = jnp.multiply(jnp.add(x, 1), 2)",
    "means of means": "out = jnp.mean(loss) + jnp.sum(2 * loss)",
    "a partial": "out = functools.partial(model, params)(x)",
    "an axis of its own": "out = jnp.squeeze(jnp.expand_dims(x, 1), 1)",
    "the largest of each row": "out = x.max(axis=1) - jnp.min(x, axis=-1)",
    "negative rows": "out = -x + ~(x > 0)",
    "comparisons": "out = (x > 0) & (x < 1)",
    "a gradient of two arguments": (
        "out = jax.grad(lambda a, b: jnp.mean(x) * a * b, argnums=(0, 1))(1.0, 2.0)"
    ),
    "a record that is changed": "out = Metrics(loss, x)._replace(right=x)",
    "a conversion": "out = loss.astype(jnp.float32) + x.astype(jnp.float32).mean()",
    "augmented": "total = x\n    total += x",
}


def with_line(line: str) -> str:
    """The usual step with a line more."""
    return _USUAL + f'    x = batch["x"]\n    {line}\n' + _END


def program(body: str) -> str:
    """The program that trains with a step."""
    return PROGRAM.replace("BODY", body)
