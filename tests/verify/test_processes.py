"""Programs of two processes, before and after, compared process by process."""

import itertools
import json
import re
import sys
from pathlib import Path

import pytest

from shardlift.verify.compare.array_distance import Tolerance
from shardlift.verify.compare.judge import judge, judge_processes, merge_verdicts
from shardlift.verify.compare.verdicts import Gap, GapKind
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

def late(w, x):
    return lax.psum(x @ w, "batch")

def kept(x):
    return lax.psum(x, "batch")

kept = jax.pmap(kept, axis_name="batch")
"""
BEFORE = """
def hidden(w, x):
    return w - 0.1 * jnp.sign(lax.pmean(grads_of(w, x), "batch"))

wrong = lambda w, x: w - lax.pmean(grads_of(w, x), "batch")
right, wrong, hidden, late = (
    jax.pmap(f, axis_name="batch") for f in (right, wrong, hidden, late)
)
w = jax.device_put_replicated(jnp.arange(3.0), jax.local_devices())
for _ in range(2):
    x = rng.normal(size=(n, 4, 3)).astype(np.float32)
    w, _ = right(w, x)
wrong(w, x)
hidden(w, x)
late(w, x)
kept(x)
"""
# The mean of each process by itself, which only one process would take for the right one; a
# gradient that is wrong on one device of process 1, whose scale no output shows; and a function
# that is right, but has other inputs in process 1.
AFTER = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def wrong(w, x):
    return w - lax.pmean(grads_of(w, x), "batch", axis_index_groups=[[0, 1], [2, 3]])

def hidden(w, x):
    scale = jnp.where(lax.axis_index("batch") == 3, 1.5, 1.0)
    return w - 0.1 * jnp.sign(lax.pmean(grads_of(w, x) * scale, "batch"))

mesh = Mesh(np.array(jax.devices()), ("batch",))
rows = NamedSharding(mesh, P("batch"))
specs = {"mesh": mesh, "in_specs": (P(), P("batch")), "check_vma": False}
right = jax.jit(jax.shard_map(right, out_specs=(P(), P("batch")), **specs))
late = jax.jit(jax.shard_map(late, out_specs=P("batch"), **specs), donate_argnums=1)
wrong, hidden = (jax.jit(jax.shard_map(f, out_specs=P(), **specs)) for f in (wrong, hidden))
w = jnp.arange(3.0)
for _ in range(2):
    mine = rng.normal(size=(n, 4, 3)).astype(np.float32).reshape(-1, 3)
    x = jax.make_array_from_process_local_data(rows, mine)
    w, _ = right(w, x)
wrong(w, x)
hidden(w, x)
late(w, jax.make_array_from_process_local_data(rows, mine * (1 + jax.process_index())))
kept(mine.reshape(n, 4, 3))
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
    kept, right, wrong, hidden, late = json.loads(done.stdout)["sites"]
    assert (right["verdict"], right["calls"], right["leaves"]) == ("identical", 2, 8)
    assert (right["collectives"], right["collective_calls"]) == (4, 2)
    assert {one["part"] for one in wrong["findings"]} == {"outputs", "inside"}
    for site, process in itertools.product((wrong, hidden, late), (0, 1)):
        said = [one["what"].partition(":")[0] for one in site["findings"]]
        assert site["verdict"] == "different"
        assert f"process {process}" in said
    assert {one["part"] for one in hidden["findings"]} == {"inside"}
    assert hidden["findings"][0]["about"] == SIGN
    assert (kept["verdict"], kept["gaps"][0]["what"]) == ("partly compared", NOT_TRACED)
    assert (late["itself"], hidden["itself"]) == (False, True)


NOT_TRACED = "after: jax.pmap cannot be traced in a job of many processes"
SIGN = 'return w - 0.1 * jnp.sign(lax.pmean(grads_of(w, x), "batch"))'
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
    first, *rest = done.stderr[done.stderr.index("shardlift verify: skips") :].splitlines()
    assert first.startswith("shardlift verify: skips.py was stuck and was ended: for ")
    assert first.endswith(
        "none of its 2 processes had used the CPU or printed anything (--stuck-after)"
    )
    said = "\n".join(rest)
    assert re.search(r"process 0 .*: waits at skips.py:6 in <module>: print", said)
    assert re.search(r"process 1 .*: at the end of the program", said)


def test_the_verdict_of_a_job_is_the_worst_of_its_processes() -> None:
    import numpy as np

    rows = batch(np.random.default_rng(0), 4, 2)
    one, other = (by_hand({"step": [{"x": rows + k}], "rest": [{"y": rows}]}) for k in (0, 1))
    step, rest = merge_verdicts({0: judge(one, one), 1: judge(one, other)}, 2)
    assert (step.verdict, rest.verdict) == ("different", "identical")
    assert (step.leaves, step.calls, rest.leaves) == (2, 1, 2)
    assert step.findings[0].what.startswith("process 1: 8 of 8 elements differ")
    assert judge_processes({0: (one, other)}, 1, Tolerance()) == judge(one, other)
    alone = by_hand({"step": [{"x": rows}]})
    merged = merge_verdicts({0: judge(one, one), 1: judge(alone, alone)}, 2)
    assert merged[1].notes[-1] == "only in process 0 of 2"
    step, rest = merge_verdicts({1: judge(one, other)}, 3)
    assert (step.verdict, rest.verdict) == ("different", "partly compared")
    assert rest.gaps == (Gap(GapKind.PROCESS_MISSING, "0, 2 of 3"),)
