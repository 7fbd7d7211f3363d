"""Jobs under real MPIs: what each leaves, and what happens when a rank goes wrong."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shardlift.capture.parts import read_whole
from shardlift.cli import main
from shardlift.launch.job import free_port
from tests import children

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


class Cluster:
    """One MPI, in the folder of a test, which is skipped where it is not installed."""

    def __init__(self, name: str, folder: Path) -> None:
        program, *flags = STARTERS[name]
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"{program} is not installed")
        self.start, self.folder = [path, *flags], folder

    def run(
        self, body: str, *options: str, processes: int = 2, args: Sequence[str] = ()
    ) -> children.Done:
        (self.folder / "program.py").write_text(START + textwrap.dedent(body))
        more = {"JAX_PLATFORMS": "cpu", "COORDINATOR": f"127.0.0.1:{free_port()}"}
        ours = [sys.executable, "-m", "shardlift.cli", "run", "--record", "run.json", *options]
        command = [*self.start, "-n", str(processes), *ours, "program.py", *args]
        env = children.plain_environment(**more)
        return children.run(command, cwd=self.folder, env=env, timeout=90)

    def invoke(self, command: str, *arguments: str) -> Result:
        """Run a command that reads captures, in this process."""
        paths = [str(self.folder / one) if one.endswith(".json") else one for one in arguments]
        return CliRunner().invoke(main, [command, *paths], catch_exceptions=False)


@pytest.fixture
def cluster(scheduler: str, tmp_path: Path) -> Cluster:
    return Cluster(scheduler, tmp_path)


def ours(done: children.Done) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("shardlift:")]


@each
def test_a_job_leaves_the_parts_of_one_record(cluster: Cluster):
    done = cluster.run("train(5)", processes=3)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in cluster.folder.glob("run*")) == [
        f"run.json.{k}" for k in range(3)
    ]
    whole = read_whole(cluster.folder / "run.json")
    assert [(p.index, p.count, p.ended) for p in whole.processes] == [
        (k, 3, True) for k in range(3)
    ]
    assert whole.sites[0].calls == 15
    assert [line.split(" ")[1] for line in ours(done)] == ["next:"]
    assert "3 processes" in cluster.invoke("report", "run.json").stdout


@each
def test_a_rank_that_raises(cluster: Cluster):
    done = cluster.run("""
        train(5)
        if me == 1:
            raise ValueError("no more data")
    """)
    assert done.returncode != 0
    assert "ValueError: no more data" in done.stderr
    assert f"its part of the record is {cluster.folder}/run.json.1" in done.stderr
    whole = read_whole(cluster.folder / "run.json")
    assert [process.index for process in whole.processes] == [0, 1]
    assert whole.sites[0].calls >= 5 + 5


# One of the two functions has a wrong gradient in process 1, after; no output shows its scale.
COMPARED = """
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import numpy as np

after = "after" in sys.argv

def right(w, x):
    return w - jnp.sign(lax.pmean(jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w), "i"))

def wrong(w, x):
    scale = 1 + 2 * lax.axis_index("i") * after
    return w - jnp.sign(lax.pmean(scale * jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w), "i"))

data = np.random.default_rng(me).normal(size=(4, 3)).astype(np.float32)
mesh = Mesh(np.array(jax.devices()), ("i",))
whole = jax.make_array_from_process_local_data(NamedSharding(mesh, P("i")), data)
specs = {"mesh": mesh, "in_specs": (P(), P("i")), "out_specs": P(), "check_vma": False}
for f in (right, wrong):
    if after:
        jax.jit(jax.shard_map(f, **specs))(jnp.ones(3), whole)
    else:
        jax.pmap(f, "i")(jnp.ones((1, 3)), data[None])
"""


@pytest.mark.parametrize("scheduler", ["open mpi"])
def test_two_jobs_are_compared_process_by_process(cluster: Cluster):
    for name in ("before", "after"):
        options = ("--record", f"{name}.json", "--record-inputs", "100000")
        done = cluster.run(COMPARED, *options, args=[name])
        assert done.returncode == 0, done.stderr
    verdict = cluster.invoke("verify", "before.json", "after.json", "--format", "json")
    sites = {site["name"]: site for site in json.loads(verdict.stdout)["sites"]}
    assert (sites["right"]["verdict"], sites["right"]["collectives"]) == ("identical", 2)
    findings = sites["wrong"]["findings"]
    assert [(one["part"], one["what"][:9]) for one in findings] == [
        ("inside", "process 0"),
        ("inside", "process 1"),
    ]
    assert verdict.exit_code == 1
    (cluster.folder / "after.json.1").unlink()
    verdict = cluster.invoke("verify", "before.json", "after.json")
    assert "not recorded before, or after: process 1 of 2" in verdict.stdout
    assert "partly compared  right" in verdict.stdout
