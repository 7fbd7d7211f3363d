"""`migrate --to jit`: what a recorded run shows is written, and verified."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shardlift.cli import main
from tests import children

PROGRAM = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def fitted(w, batch):
    return jnp.mean((batch["x"] @ w - batch["y"]) ** 2)


def compared(w, batch):
    # Rows of shape (b, 1) less rows of shape (b,): each with each.
    return jnp.mean((batch["x"] @ w - batch["label"]) ** 2)


def train_step(w, batch):
    loss, grads = jax.value_and_grad(fitted)(w, batch)
    return w - 0.1 * lax.pmean(grads, "batch"), lax.pmean(loss, "batch")


def other_step(w, batch):
    return lax.pmean(compared(w, batch), "batch")


def shard(tree):
    n = jax.local_device_count()
    return jax.tree.map(lambda x: x.reshape((n, -1) + x.shape[1:]), tree)


p_train = jax.pmap(train_step, axis_name="batch", donate_argnums=(0,))
p_other = jax.pmap(other_step, axis_name="batch")


def main():
    w = jax.device_put_replicated(jnp.ones((3, 1)), jax.local_devices())
    v = jax.device_put_replicated(jnp.ones((3, 1)), jax.local_devices())
    for k in range(2):
        x = np.random.default_rng(k).normal(size=(8, 3)).astype(np.float32)
        batch = {"x": x, "y": x[:, :1] * 2, "label": x[:, 0]}
        w, loss = p_train(w, shard(batch))
        print(f"{loss[0]:.3f} {p_other(v, shard(batch))[0]:.3f}")


main()
"""
ENV = children.plain_environment()


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


@pytest.mark.exhaustive
def test_what_a_run_shows_is_written(tmp_path: Path, monkeypatch) -> None:
    for name in set(os.environ) - set(ENV):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    record = [sys.executable, "-m", "shardlift", "run", "--devices", "2", "--record", "run.json"]
    assert children.run([*record, "train.py"], env=ENV, timeout=200).returncode == 0
    command = ["migrate", "train.py", "--to", "jit", "--facts", "run.json", "--devices", "2"]
    done = invoke(*command, "--write", "--verify", "python train.py")
    text = (tmp_path / "train.py").read_text()
    assert "p_train = jit_over_devices(" in text
    assert "def other_step(w, batch):\n    return lax.pmean(" in text
    assert "2 verified" in done.stdout
    assert "on the whole batch it computes something else: psum #1 in `return" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "`shardlift run --record run.json PROGRAM` and add --facts run.json"),
        (["--write", "--facts", "run.json"], "equal to rounding: add --verify"),
    ],
)
def test_it_needs_runs(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    done = invoke("migrate", str(tmp_path), "--to", "jit", *arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert (tmp_path / "train.py").read_text() == PROGRAM
