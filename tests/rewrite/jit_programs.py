"""A program that trains with `step(params, batch)`, and what a run of it would have recorded."""

from dataclasses import replace

from shardlift.capture.schema import Capture, WholeBatchTrial
from tests.rewrite.captures import all_proven
from tests.rewrite.training_programs import HELPERS

PROGRAM = """\
import functools
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


class Dense:
    def __init__(self, size):
        self.size = size

    def init(self, x):
        return {"w": jnp.ones((x.shape[-1], self.size)) * 0.1, "b": jnp.zeros(self.size)}

    def apply(self, params, x):
        layers = lax.scan(lambda x, _: (jnp.tanh(x), None), x, None, 2)[0]
        return layers @ params["w"] + params["b"][None]


model = Dense(2)


def loss_fn(params, batch):
    return jnp.mean((model.apply(params, batch["x"]) - batch["y"]) ** 2)


def sgd(params, grads):
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def step(params, batch):
BODY


p_step = jax.pmap(step, axis_name="batch")


def data(rows=16):
    x = np.random.RandomState(0).randn(rows, 3).astype(np.float32)
    return {"x": x, "y": x[:, :2] * 2 + 1}

HELPERS

def main():
    params = replicate(model.init(data()["x"]))
    for _ in range(2):
        params, metrics = p_step(params, shard(data()))
    return jax.device_get(unreplicate((params, metrics)))
"""
GRADIENT = "    loss, grads = jax.value_and_grad(loss_fn)(params, batch)\n"
END = '    return sgd(params, lax.pmean(grads, "batch")), lax.pmean(loss, "batch")'
USUAL = GRADIENT + END
HOLDS = WholeBatchTrial(joined=(1,), difference=1e-7, bound=1e-5, at="output[0]")


def program(body: str = USUAL) -> str:
    """The program that trains with a step."""
    return PROGRAM.replace("BODY", body).replace("HELPERS", HELPERS)


def recorded(text: str, trial: WholeBatchTrial | None = HOLDS) -> Capture:
    """What a run would record of the site."""
    (site,) = all_proven({"main.py": text}).sites
    return Capture(sites=(replace(site, axis_name="batch", whole_batch=trial),))
