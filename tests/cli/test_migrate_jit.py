"""`migrate --to jit --verify`: what holds to rounding is written, what does not is backed out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

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


@pytest.mark.exhaustive
def test_numbers_that_differ_are_backed_out(tmp_path: Path, monkeypatch) -> None:
    for name in set(os.environ) - set(ENV):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    command = ["migrate", "train.py", "--write", "--to", "jit", "--devices", "2"]
    done = CliRunner().invoke(main, [*command, "--verify", "python train.py"])
    text = (tmp_path / "train.py").read_text()
    assert "p_train = jit_over_devices(" in text
    assert 'p_other = jax.pmap(other_step, axis_name="batch")' in text
    assert "1 verified, 1 backed out" in done.stdout
    assert "left as it is: numbers differ: " in done.stdout


def test_it_is_not_written_without_a_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    done = CliRunner().invoke(main, ["migrate", str(tmp_path), "--write", "--to", "jit"])
    assert done.exit_code == 2
    assert "equal to rounding: add --verify" in " ".join(done.stderr.split())
    assert (tmp_path / "train.py").read_text() == PROGRAM
