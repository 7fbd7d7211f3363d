"""What `shardlift demo` runs: a data-parallel train step, by `shardlift.pmap` and by `jax.pmap`."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import shardlift

Pmap = Callable[..., Any]
State = dict[str, Any]


class Leaf(NamedTuple):
    """One leaf of the final states of both runs."""

    path: str
    shape: tuple[int, ...]
    identical: bool


class Outcome(NamedTuple):
    """Both runs, compared."""

    losses: list[float]
    leaves: list[Leaf]
    explanation: str
    step_us: dict[str, float]  # time of one warm step, by implementation
    nested: dict[str, str]  # what a pmap inside a pmap did, by implementation


def train_step(state: State, batch: dict[str, jax.Array]) -> tuple[State, jax.Array]:
    """One step of SGD with momentum, the gradient averaged over the devices."""

    def loss_of(params: State) -> jax.Array:
        hidden = jnp.tanh(batch["x"] @ params["w1"] + params["b1"])
        return jnp.mean((hidden @ params["w2"] - batch["y"]) ** 2)

    loss, grads = jax.value_and_grad(loss_of)(state["params"])
    grads = lax.pmean(grads, "batch")
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], grads)
    params = jax.tree.map(lambda p, m: p - 0.05 * m, state["params"], momentum)
    return {"params": params, "momentum": momentum}, lax.pmean(loss, "batch")


def make_step(pmap: Pmap) -> Any:
    """The step, mapped over the devices, its state reused in place."""
    return functools.partial(pmap, axis_name="batch", donate_argnums=0)(train_step)


def start() -> State:
    """The state before the first step, one copy a device."""
    rng = np.random.default_rng(0)
    params = {
        "w1": rng.normal(size=(16, 32)).astype(np.float32) * 0.2,
        "b1": np.zeros(32, np.float32),
        "w2": rng.normal(size=(32, 1)).astype(np.float32) * 0.2,
    }
    state = {"params": params, "momentum": jax.tree.map(np.zeros_like, params)}
    return jax.tree.map(lambda x: np.stack([x] * jax.device_count()), state)


def batches(steps: int) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """The data: one shard of each batch a device."""
    rng = np.random.default_rng(1)
    slope = rng.normal(size=(16, 1)).astype(np.float32) / 4
    for _ in range(steps):
        x = rng.normal(size=(jax.device_count(), 8, 16)).astype(np.float32)
        yield {"x": x, "y": np.tanh(x @ slope)}


def train(pmap: Pmap, steps: int) -> tuple[State, list[float]]:
    """Run the whole loop with this pmap."""
    step, state, losses = make_step(pmap), start(), []
    for batch in batches(steps):
        state, loss = step(state, batch)
        losses.append(float(loss.addressable_shards[0].data[0]))
    return state, losses


def compare(steps: int = 30, progress: Callable[[str], None] = lambda _: None) -> Outcome:
    """Train with both, and compare every leaf bit by bit."""
    progress(f"training {steps} steps with shardlift.pmap")
    ours, losses = train(shardlift.pmap, steps)
    progress(f"training {steps} steps with jax.pmap")
    theirs, _ = train(jax.pmap, steps)
    progress("comparing every leaf, timing a step")
    explanation = make_step(shardlift.pmap).explain(start(), next(batches(1)))
    return Outcome(
        losses=losses,
        leaves=list(_leaves(ours, theirs)),
        explanation=str(explanation),
        step_us=time_steps({"shardlift.pmap": shardlift.pmap, "jax.pmap": jax.pmap}),
        nested={"shardlift.pmap": try_nested(shardlift.pmap), "jax.pmap": try_nested(jax.pmap)},
    )


def _leaves(ours: State, theirs: State) -> Iterator[Leaf]:
    pairs = zip(jax.tree_util.tree_flatten_with_path(ours)[0], jax.tree.leaves(theirs), strict=True)
    for (path, a), b in pairs:
        name = "".join(f"[{key.key!r}]" for key in path)
        same = np.asarray(a).tobytes() == np.asarray(b).tobytes()
        yield Leaf(name, a.shape, same and a.dtype == b.dtype)


def time_steps(pmaps: dict[str, Pmap], rounds: int = 20, calls: int = 10) -> dict[str, float]:
    """Microseconds of a warm step, the contenders in turns, the best round of each."""
    batch = next(batches(1))
    steps = {name: make_step(pmap) for name, pmap in pmaps.items()}
    states = {name: step(start(), batch)[0] for name, step in steps.items()}
    best = dict.fromkeys(pmaps, float("inf"))
    for _ in range(rounds):
        for name, step in steps.items():
            began = time.perf_counter()
            for _ in range(calls):
                states[name], loss = step(states[name], batch)
            jax.block_until_ready((states[name], loss))
            best[name] = min(best[name], (time.perf_counter() - began) / calls * 1e6)
    return best


def try_nested(pmap: Pmap) -> str:
    """A pmap inside a pmap: over how many devices does its sum go?"""
    inner = functools.partial(pmap, axis_name="j")(lambda x: lax.psum(x, ("i", "j")))
    rows = np.ones((2, jax.device_count() // 2), np.float32)
    try:
        total = functools.partial(pmap, axis_name="i")(inner)(rows)
    except ValueError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:60]}..."
    return f"a sum over {int(np.asarray(total)[0, 0])} devices"
