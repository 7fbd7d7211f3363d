"""Programs that run ahead of their devices end, on however few cores."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests import children

ROOT = Path(__file__).resolve().parents[2]
ONE_CORE = "--setting=NPROC=1"  # as XLA counts them: then it starts one thread per device

pytestmark = pytest.mark.slow


def stress(*options: str) -> tuple[int, dict[str, object]]:
    """The exit status of one launch, and its record."""
    env = {k: v for k, v in os.environ.items() if k not in ("PJRT_NPROC", "NPROC")}
    command = [sys.executable, "-m", "bench.launch_stress", "--launches", "1", *options]
    done = children.run(command, cwd=ROOT, env=env)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("size", "fork"), [pytest.param("2x4", [], marks=pytest.mark.exhaustive), ("4x2", ["--fork"])]
)
def test_a_job_with_many_steps_in_flight_ends(size: str, fork: list[str]):
    processes, devices = size.split("x")
    sizes = [f"--processes={processes}", f"--devices={devices}", "--steps=80"]
    status, record = stress(*sizes, ONE_CORE, "--still=60", *fork)
    assert (status, record.get("ended"), record.get("hung")) == (0, 1, None)


RUNNING_AHEAD = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), "i")
mean = lambda x: jax.lax.pmean(x, "i")
mapped = jax.shard_map(mean, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
step = jax.jit(mapped)
x = jax.device_put(np.arange(4, dtype=np.float32), NamedSharding(mesh, P("i")))
for _ in range(1000):
    x = step(x)
print("means", np.asarray(x))
"""


def test_a_program_in_one_process_that_runs_ahead_ends(tmp_path: Path):
    script = tmp_path / "program.py"
    script.write_text(RUNNING_AHEAD)
    env = {k: v for k, v in os.environ.items() if k != "PJRT_NPROC"}
    command = [sys.executable, "-m", "shardlift.cli", "run", "-q", "--devices", "4", str(script)]
    done = children.run(command, env=env | {"NPROC": "1"})
    assert (done.returncode, done.stdout) == (0, "means [1.5 1.5 1.5 1.5]\n"), done.stderr
