"""A training step as pmap has it, and as `migrate --to shard_map`, `global` and `jit` write it.

    python -m bench.global_step [--devices 8]

The program below is recorded and migrated, and all forms of it train in turn, in a new order
each round; the best round of each counts. "pmap" is the program as `shardlift run` runs it. Memory
is what the arrays of a program hold on one device while it trains, in copies of its parameters.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROUNDS, STEPS = 15, 10
SIZES = (64, 512)
PROGRAM = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def loss_fn(params, batch):
    x = batch["x"]
    for w in params:
        x = jnp.tanh(x @ w)
    return jnp.mean((x - batch["y"]) ** 2)


def train_step(params, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    grads = lax.pmean(grads, "batch")
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), lax.pmean(loss, "batch")


p_step = jax.pmap(train_step, axis_name="batch", donate_argnums=(0,))


def shard(tree):
    n = jax.local_device_count()
    return jax.tree.map(lambda x: x.reshape((n, -1) + x.shape[1:]), tree)


def unreplicate(tree):
    return jax.tree.map(lambda x: x[0], tree)


def main(size, rows):
    x = np.random.RandomState(0).normal(size=(rows, size)).astype(np.float32)
    params = jax.device_put_replicated([jnp.eye(size)] * 4, jax.local_devices())
    while True:
        batch = shard({"x": x, "y": x})
        params, loss = p_step(params, batch)
        yield float(unreplicate(loss))


if __name__ == "__main__":
    print(next(main(8, 64)))
"""


def texts(folder: Path) -> dict[str, str]:
    """The program in each form, by the name of the goal."""
    from shardlift import legacy
    from shardlift.facts import Recorder
    from shardlift.rewrite.engine import migrate
    from shardlift.rewrite.goal import Goal

    forms, recorder = {"pmap": PROGRAM}, Recorder()
    with legacy(recorder=recorder):
        next(module_of(folder / "main.py", PROGRAM).main(8, 64))
    facts = [recorder.capture()]
    for goal in (Goal.SHARD_MAP, Goal.GLOBAL, Goal.JIT):
        given = facts if goal in (Goal.GLOBAL, Goal.JIT) else []
        path = str(folder / "main.py")
        result = migrate([path], lambda _: PROGRAM.encode(), os.path.exists, goal, facts=given)
        (file,) = (file for file in result.files if file.path == path)
        forms[goal.value] = file.after
    return forms


def programs(folder: Path) -> dict[str, Any]:
    """The modules of all forms."""
    return {
        name: module_of(folder / f"step_{name}.py", text) for name, text in texts(folder).items()
    }


def module_of(path: Path, text: str) -> Any:
    """The module of a text, which is written to a file."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bytes_on_one_device() -> int:
    """What all arrays that are alive hold on the first device."""
    import jax

    first = jax.local_devices()[0]
    shards = (shard for array in jax.live_arrays() for shard in array.addressable_shards)
    return sum(shard.data.nbytes for shard in shards if shard.device == first)


def measure(
    size: int, rows: int, modules: dict[str, Any]
) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds per step, and copies of the parameters on one device, of each form."""
    running: dict[str, Iterator[float]] = {}
    copies: dict[str, float] = {}
    for name, module in modules.items():
        before = bytes_on_one_device()
        running[name] = module.main(size, rows)
        for _ in range(3):
            next(running[name])
        copies[name] = (bytes_on_one_device() - before) / (4 * size * size * 4)
    best = dict.fromkeys(modules, float("inf"))
    for _ in range(ROUNDS):
        for name in random.sample(list(modules), len(modules)):
            start = time.perf_counter()
            for _ in range(STEPS):
                next(running[name])
            best[name] = min(best[name], (time.perf_counter() - start) / STEPS * 1e6)
    return best, copies


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, help="virtual CPU devices")
    given = parser.parse_args()
    if given.devices:
        os.environ["JAX_NUM_CPU_DEVICES"] = str(given.devices)
        os.environ["JAX_PLATFORMS"] = "cpu"
    from shardlift import legacy

    with tempfile.TemporaryDirectory() as folder, legacy():
        modules = programs(Path(folder))
        for size in SIZES:
            best, copies = measure(size, 64, modules)
            for name in modules:
                ratio = best[name] / best["pmap"]
                print(
                    f"{size} x {size}, {name}: {best[name]:.0f} µs per step, {ratio:.2f} of pmap, "
                    f"{copies[name]:.2f} copies of the parameters on one device",
                    flush=True,
                )


if __name__ == "__main__":
    main()
