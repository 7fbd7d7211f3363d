"""The demo runs, and would say so if a leaf differed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import shardlift
from shardlift import demo
from shardlift.cli.demo import demo as command


@pytest.mark.slow
def test_the_command_as_a_user_types_it():
    done = subprocess.run(
        [sys.executable, "-m", "shardlift", "demo", "--steps", "5"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "6 of 6 leaves are bit-identical" in done.stdout
    assert "shardlift.pmap: a sum over 8 devices" in done.stdout


def test_a_difference_is_found(monkeypatch):
    honest = demo.train

    def other(pmap, steps):
        state, losses = honest(pmap, steps)
        if pmap is shardlift.pmap:
            w1 = np.array(state["params"]["w1"])
            w1[3, 0, 0] = np.nextafter(w1[3, 0, 0], np.float32(9))
            state["params"]["w1"] = w1
        return state, losses

    monkeypatch.setattr(demo, "train", other)
    result = CliRunner().invoke(command, ["--steps", "2"])
    assert result.exit_code == 1
    assert "5 of 6 leaves" in result.output


def test_training_lowers_the_loss():
    _, losses = demo.train(shardlift.pmap, 30)
    assert losses[-1] < 0.7 * losses[0]
