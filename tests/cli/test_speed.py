"""`shardlift migrate --verify COMMAND --speed`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from shardlift.capture.schema import Capture, Times
from shardlift.cli import main
from shardlift.cli.speed import Speed, compare_speeds
from tests import children
from tests.capture.captures import distribution, site


def _run(seconds: float, **changes: object) -> Capture:
    times = Times(call=distribution(seconds), dispatch=distribution(seconds))
    return Capture(sites=(replace(site(times=times), **changes),))


def test_the_best_of_all_runs_is_compared() -> None:
    (speed,) = compare_speeds([_run(0.4), _run(0.2)], [_run(0.1), _run(0.3)])
    assert speed.name == "train_step (train.py:12)"
    assert speed.before == pytest.approx(0.2, rel=0.05)
    assert speed.after == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(
    "after",
    [
        _run(0.1, function="eval_step", file="eval.py"),
        Capture(sites=(site(times=Times()),)),
        Capture(),
    ],
)
def test_what_was_not_timed_before_and_after_is_left_out(after: Capture) -> None:
    assert list(compare_speeds([_run(0.1)], [after])) == []


@pytest.mark.parametrize(
    ("after", "words"),
    [(2.0, "2.00 times slower"), (0.5, "2.00 times faster"), (1.05, "as fast")],
)
def test_the_change_in_words(after: float, words: str) -> None:
    assert str(Speed("f (a.py:1)", 1.0, after)).endswith(words)


PROGRAM = """\
import os
import jax
import numpy as np

f = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")
for _ in range(5):
    y = f(np.ones(jax.local_device_count()))
jax.device_put_replicated(1, jax.devices())
print(y)
"""


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what `shardlift run` restores, as the program needs it."""
    (tmp_path / "train.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    for name, value in children.plain_environment().items():
        monkeypatch.setenv(name, value)
    command = ["migrate", ".", "--write", "--verify", "python train.py", "--devices", "2"]
    result = CliRunner().invoke(
        main, [*command, "--speed", "--pr", "pr.md"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    assert re.search(r"<lambda> \(train.py:\d+\): .* before, .* after, ", result.output)
    assert "## How fast it is" in (tmp_path / "pr.md").read_text()
