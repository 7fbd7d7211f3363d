"""`migrate --strict-vma --verify`: check_vma=True where the numbers hold, else the plain form."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from shardlift.cli import main
from shardlift.migrate.device_axis import strict
from tests import children

PROGRAM = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def train_step(w, x):
    grads = jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
    grads = lax.pmean(grads, "batch")
    return w - 0.1 * grads, lax.pmean(jnp.mean(x @ w), "batch")


def main():
    n = jax.local_device_count()
    p_step = jax.pmap(train_step, axis_name="batch")
    w = jax.device_put_replicated(jnp.arange(3.0), jax.local_devices())
    for _ in range(2):
        x = np.random.normal(size=(n, 4, 3)).astype(np.float32)
        w, loss = p_step(w, x)
    print(loss[0])


main()
"""
ENV = children.plain_environment()


@pytest.mark.slow
@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(False, id="right", marks=pytest.mark.exhaustive),
        pytest.param(True, id="wrong", marks=pytest.mark.exhaustive),
    ],
)
def test_strict_where_the_numbers_hold(planted: bool, tmp_path: Path, monkeypatch) -> None:
    for name in set(os.environ) - set(ENV):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    record = [sys.executable, "-m", "shardlift.cli", "run", "-q", "--devices", "2"]
    children.run([*record, "--record", "run.json", "train.py"], env=ENV, check=True)
    if planted:  # gradients of what is whole on all devices are summed, and nobody says so
        monkeypatch.setattr(strict, "casts", lambda *_: [])
    options = ["--to", "global", "--facts", "run.json", "--strict-vma", "--devices", "2"]
    command = ["migrate", "train.py", "--write", *options, "--verify", "python train.py"]
    done = CliRunner().invoke(main, command, catch_exceptions=False)
    text = (tmp_path / "train.py").read_text()
    assert "in_specs=(jax.P()," in text
    assert ("check_vma=False" in text) is planted  # without it, jax.shard_map checks
    assert "1 verified" in done.stdout
    if planted:
        assert "check_vma stays off at train_step: numbers differ: " in done.stdout
        assert "2.000 times too large: check_vma with unvarying parameters" in done.stdout
    else:
        assert "1 with check_vma=True" in done.stdout
