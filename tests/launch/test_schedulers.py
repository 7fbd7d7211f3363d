"""Jobs under real MPIs: what each leaves, and what happens when a rank goes wrong."""

import shutil
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from shardlift.capture.parts import read_whole
from shardlift.cli import main
from shardlift.launch.job import free_port
from tests import children
from tests.launch.test_member import ours

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]
STARTERS = {
    "open mpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
    "mpich": ["mpiexec.mpich"],
}
each = pytest.mark.parametrize("scheduler", STARTERS)
# JAX finds Open MPI by itself, MPICH only with mpi4py.
START = """
import os, signal, sys, time
import jax
import jax.numpy as jnp
if "PMI_RANK" in os.environ:
    place = int(os.environ["PMI_SIZE"]), int(os.environ["PMI_RANK"])
    jax.distributed.initialize(os.environ["COORDINATOR"], *place)
else:
    jax.distributed.initialize()
me = jax.process_index()
step = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")
x = jnp.ones(1)
def train(steps):
    for k in range(steps): step(x).block_until_ready()
"""


def run(scheduler: str, folder: Path, body: str, processes: int) -> children.Done:
    """Record a program under an MPI; the test is skipped where that is not installed."""
    program, *flags = STARTERS[scheduler]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    (folder / "program.py").write_text(START + textwrap.dedent(body))
    more = {"JAX_PLATFORMS": "cpu", "COORDINATOR": f"127.0.0.1:{free_port()}"}
    ours = [sys.executable, "-m", "shardlift.cli", "run", "--record", "run.json", "program.py"]
    command = [program, *flags, "-n", str(processes), *ours]
    return children.run(command, cwd=folder, env=children.plain_environment(**more), timeout=90)


@each
def test_a_job_leaves_the_parts_of_one_record(scheduler: str, tmp_path: Path):
    done = run(scheduler, tmp_path, "train(5)", 3)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.glob("run*")) == [
        f"run.json.{k}" for k in range(3)
    ]
    whole = read_whole(tmp_path / "run.json")
    assert [(p.index, p.count, p.ended) for p in whole.processes] == [
        (k, 3, True) for k in range(3)
    ]
    assert whole.sites[0].calls == 15
    assert [line.split(" ")[1] for line in ours(done)] == ["next:"]
    report = CliRunner().invoke(main, ["report", str(tmp_path / "run.json")])
    assert "3 processes" in report.stdout
