"""Programs of two processes, before and after, compared process by process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from shardlift.verify.compare.judge import judge
from shardlift.verify.compare.processes import merge_verdicts
from tests import children
from tests.verify.recording import batch, by_hand

COMMON = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax

rng = np.random.default_rng(jax.process_index())
n = jax.local_device_count()

def grads_of(w, x):
    return jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)

def right(w, x):
    return w - lax.pmean(grads_of(w, x), "batch"), x.sum(1)

"""
BEFORE = """
wrong = lambda w, x: w - lax.pmean(grads_of(w, x), "batch")
right, wrong = (jax.pmap(f, axis_name="batch") for f in (right, wrong))
w = jax.device_put_replicated(jnp.arange(3.0), jax.local_devices())
for _ in range(2):
    x = rng.normal(size=(n, 4, 3)).astype(np.float32)
    w, _ = right(w, x)
wrong(w, x)
"""
# The mean of each process by itself, which only one process would take for the right one.
AFTER = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def wrong(w, x):
    return w - lax.pmean(grads_of(w, x), "batch", axis_index_groups=[[0, 1], [2, 3]])

mesh = Mesh(np.array(jax.devices()), ("batch",))
rows = NamedSharding(mesh, P("batch"))
specs = {"mesh": mesh, "in_specs": (P(), P("batch")), "check_vma": False}
right = jax.jit(jax.shard_map(right, out_specs=(P(), P("batch")), **specs))
wrong = jax.jit(jax.shard_map(wrong, out_specs=P(), **specs))
w = jnp.arange(3.0)
for _ in range(2):
    x = rng.normal(size=(n, 4, 3)).astype(np.float32).reshape(-1, 3)
    x = jax.make_array_from_process_local_data(rows, x)
    w, _ = right(w, x)
wrong(w, x)
"""
ENV = children.plain_environment()


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    (tmp_path / "before.py").write_text(COMMON + BEFORE)
    (tmp_path / "after.py").write_text(COMMON + AFTER)
    options = ["--processes", "2", "--devices", "2", "--format", "json"]
    command = [sys.executable, "-m", "shardlift.cli", "verify", "before.py", "after.py", *options]
    done = children.run(command, cwd=tmp_path, env=ENV)
    assert done.returncode == 1, done.stdout + done.stderr
    right, wrong = json.loads(done.stdout)["sites"]
    assert (right["verdict"], right["calls"], right["leaves"]) == ("identical", 2, 8)
    assert wrong["verdict"] == "different"
    said = {one["what"].partition(":")[0] for one in wrong["findings"]}
    assert said == {"process 0", "process 1"}


SKIPS = """
import jax, jax.numpy as jnp

step = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")
if jax.process_index() == 0:
    print(float(step(jnp.ones(jax.local_device_count()))[0]))
"""


@pytest.mark.slow
def test_a_program_that_is_stuck_is_ended_and_explained(tmp_path: Path) -> None:
    (tmp_path / "skips.py").write_text(SKIPS)
    options = ["--processes", "2", "--devices", "1", "--stuck-after", "4"]
    command = [sys.executable, "-m", "shardlift.cli", "verify", "skips.py", "skips.py", *options]
    done = children.run(command, cwd=tmp_path, env=ENV)
    assert done.returncode == 2, done.stdout + done.stderr
    first, *rest = done.stderr[done.stderr.index("shardlift verify:") :].splitlines()
    assert first.startswith("shardlift verify: skips.py was stuck and was ended: for ")
    assert first.endswith(
        "none of its 2 processes had used the CPU or printed anything (--stuck-after)"
    )
    said = "\n".join(rest)
    assert "process 0" in said
    assert (
        "a deadlock: the end was reached by process 1, but not by process 0 at skips.py:6" in said
    )


def test_verdicts_merge_verdicts_are_one() -> None:
    import numpy as np

    rows = batch(np.random.default_rng(0), 4, 2)
    one, other = (by_hand({"step": [{"x": rows + k}], "rest": [{"y": rows}]}) for k in (0, 1))
    assert merge_verdicts([judge(one, one)]) == judge(one, one)
    step, rest = merge_verdicts([judge(one, one), judge(one, other)])
    assert (step.verdict, rest.verdict) == ("different", "identical")
    assert (step.leaves, step.calls, rest.leaves) == (2, 1, 2)
    assert step.findings[0].what.startswith("process 1: 8 of 8 elements differ")
    alone = by_hand({"step": [{"x": rows}]})
    found = merge_verdicts([judge(one, one), judge(alone, alone)])
    assert found[1].notes[-1] == "only in process 0 of 2"
