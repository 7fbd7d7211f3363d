"""Programs of the pmap era: they fail on this JAX, and run under ``shardlift run`` as they are.

What they compute was recorded on jax 0.7.2 (`record.py`), on another machine. Another CPU has wider
vectors, or fuses multiplications and additions, and so rounds in other places; XLA does it too from
one release to the next. Therefore what was recorded elsewhere is compared within a tolerance that
follows from how many roundings lie between the inputs and the result; integers, booleans, shapes,
dtypes and what is never rounded (copies, small integers) are equal everywhere. A program that
decides (accepts, sorts, cuts off at zero) by a rounded number could go another way on another CPU:
it is written without the decision.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import children

from .record import HERE, PROGRAMS

pytestmark = pytest.mark.slow
RUN = [sys.executable, "-m", "shardlift.cli", "run"]
# The roundings on the way from inputs to results: steps times the roundings of one step. Sums over
# a batch, features or devices count each term. Programs that are not here round nothing.
OPERATIONS = {"data_parallel": 10 * 100}
ENV = children.plain_environment()


def together(out: Path, how: list[str], **env: str) -> children.Done:
    """All programs one after the other, in one process."""
    command = [*how, HERE / "together.py", out, *PROGRAMS]
    done = children.run(command, env={**ENV, **env})
    assert done.returncode == 0, done.stderr
    return done


def test_they_fail_on_this_jax(tmp_path: Path):
    together(tmp_path, [sys.executable], JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu")
    failed = {path.stem for path in tmp_path.glob("*.error")}
    assert failed == {path.stem for path in PROGRAMS}


def test_they_run_and_compute_what_they_did(tmp_path: Path):
    done = together(tmp_path, [*RUN, "--devices", "8"])
    assert "shardlift: restored for this run" in done.stderr
    errors = {path.stem: path.read_text() for path in tmp_path.glob("*.error")}
    assert errors == {}
    for program in PROGRAMS:
        before = np.load(HERE / "recorded" / f"{program.stem}.npz")
        now = np.load(tmp_path / f"{program.stem}.npz")
        assert set(now.files) == set(before.files)
        for name in before.files:
            assert_recorded(now[name], before[name], OPERATIONS.get(program.stem, 0))


def assert_recorded(now: np.ndarray, recorded: np.ndarray, operations: int) -> None:
    """Fail unless this is what was recorded on another machine, up to so many roundings in a row.

    One makes half an epsilon at most, so this is twice the worst case. They rarely point the same
    way; the room is for cancellation, and for `exp` and `tanh`, which are approximated.
    """
    assert (now.shape, now.dtype) == (recorded.shape, recorded.dtype)
    room = 0.0
    if recorded.dtype.kind == "f":
        room = operations * float(np.finfo(recorded.dtype).eps * np.abs(recorded).max(initial=0))
    np.testing.assert_allclose(now, recorded, rtol=0, atol=room)


def test_two_processes(tmp_path: Path):
    out = tmp_path / "out.json"
    program = HERE / "programs" / "processes.py"
    done = children.run(
        [*RUN, "--processes", "2", "--devices", "2", program, "--out", out], env=ENV
    )
    assert done.returncode == 0, done.stderr
    recorded = json.loads((HERE / "recorded" / "processes.json").read_text())
    assert json.loads(out.read_text()) == recorded
    assert done.stderr.count("restored for this run") == 1  # the first process alone says it
