"""A program recorded, migrated and recorded again: its sites stand side by side."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from shardlift.facts import read
from shardlift.report.comparison import pairs_of
from tests import children

TRAIN = """
import jax, jax.numpy as jnp, numpy as np
from functools import partial

@partial(jax.pmap, axis_name="batch", donate_argnums=(0,))
def step(state, x):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w["w"]) ** 2) + w["b"] ** 2)(state)
    gradient = jax.lax.pmean(gradient, "batch")
    return jax.tree.map(lambda p, g: p - 0.1 * g, state, gradient), jax.lax.pmean(loss, "batch")

def main():
    n = jax.local_device_count()
    state = {"w": np.ones((n, 4), np.float32), "b": np.ones(n, np.float32)}
    for k in range(6):
        state, loss = step(state, np.full((n, 2, 4), k, np.float32))
    print(float(loss[0]))

main()
"""


@pytest.mark.slow
def test_before_and_after(tmp_path: Path):
    (tmp_path / "train.py").write_text(TRAIN)
    environment = {**os.environ, "COLUMNS": "100"}

    def shardlift(*words: str) -> str:
        return children.run(
            [sys.executable, "-m", "shardlift", *words],
            cwd=tmp_path, env=environment, check=True,
        ).stdout  # fmt: skip

    run = ("run", "--devices", "8", "--record")
    first = shardlift(*run, "before.json", "train.py")
    shardlift("migrate", "--write", "train.py")
    assert "pmap(" not in (tmp_path / "train.py").read_text()
    assert shardlift(*run, "after.json", "train.py") == first
    before, after = (read(tmp_path / f"{name}.json") for name in ("before", "after"))
    (pair,) = pairs_of(before, after)
    assert pair.before is not None
    assert pair.after is not None
    assert (pair.before.kind, pair.after.kind) == ("pmap", "shard_map")
    assert (pair.before.calls, pair.after.calls) == (6, 6)
    assert pair.before.compile_count == 1  # the state was laid out for it
    assert [one.kind for one in pair.after.collectives] == ["psum"]
    assert "step (train.py" in shardlift("report", "before.json", "--compare", "after.json")
