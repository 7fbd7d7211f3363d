"""A program that runs ahead of its devices ends, on however few cores."""

import os
import sys
from pathlib import Path

import pytest

from tests import children

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


@pytest.mark.slow
def test_a_program_in_one_process_that_runs_ahead_ends(tmp_path: Path):
    script = tmp_path / "program.py"
    script.write_text(RUNNING_AHEAD)
    env = {k: v for k, v in os.environ.items() if k != "PJRT_NPROC"}
    command = [sys.executable, "-m", "shardlift.cli", "run", "-q", "--devices", "4", str(script)]
    done = children.run(command, env=env | {"NPROC": "1"})
    assert (done.returncode, done.stdout) == (0, "means [1.5 1.5 1.5 1.5]\n"), done.stderr
