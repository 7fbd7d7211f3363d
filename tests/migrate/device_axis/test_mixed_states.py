"""A state of which a part differs between devices: what is said of it, and both ways out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from shardlift.capture.proofs import joined
from shardlift.capture.schema import Capture, Proof, Site
from tests import children
from tests.migrate.device_axis.test_recordings import outputs as layouts_of
from tests.migrate.device_axis.test_recordings import run

WHY = "comes from argument batch, first used by mean"


def capture(*proofs: Proof) -> Capture:
    site = Site("m.py", 5, "step", axis_size=8, calls=1, proofs=proofs)
    return Capture(sites=(site,), sources=run().sources)


def test_the_part_that_differs_is_named() -> None:
    mixed = Proof("output[0]", 3, (0, 1), "output[0].stats['mean']", WHY, ("output[0].stats",))
    _, said = layouts_of(capture(mixed, Proof("output[1]", 1, ())))
    assert "only output[0].stats may differ" in said
    assert "return it apart from the rest" in said


def test_nothing_is_advised_where_everything_differs() -> None:
    all_of_it = Proof("output[0]", 1, (0, 1), "output[0]", WHY)
    _, said = layouts_of(capture(all_of_it, Proof("output[1]", 1, ())))
    assert WHY in said
    assert "apart from the rest" not in said


def test_parts_of_several_programs() -> None:
    one, other = (Proof("output[0]", 1, None, f"{p}.x", WHY, (p,)) for p in ("a", "b"))
    assert joined(one, other).varying == ("a", "b")


MIXED = """\
import typing

import jax
import jax.numpy as jnp


class State(typing.NamedTuple):
    params: jax.Array
    stats: jax.Array


def step(state, x):
    grads = jax.grad(lambda params: jnp.mean((x @ params) ** 2))(state.params)
    params = state.params - 0.1 * jax.lax.pmean(grads, "i")
    return State(params, 0.9 * state.stats + 0.1 * x.mean())


p_step = jax.pmap(step, axis_name="i")


def shard(x):
    return x.reshape((jax.local_device_count(), -1) + x.shape[1:])


def batch(number):
    return jax.random.normal(jax.random.key(number), (16, 3))


state = jax.device_put_replicated(State(jnp.ones(3), jnp.zeros(())), jax.local_devices())
for number in range(3):
    state = p_step(state, shard(batch(number)))
first = jax.tree.map(lambda x: x[0], state)
print([float(x) for x in first.params] + [float(first.stats)])
"""
APART = (
    MIXED.replace("def step(state, x)", "def step(params, stats, x)")
    .replace("(state.params)", "(params)")
    .replace("params = state.params -", "params = params -")
    .replace(
        "State(params, 0.9 * state.stats + 0.1 * x.mean())", "params, 0.9 * stats + 0.1 * x.mean()"
    )
    .replace("    state = p_step(state, ", "    params, stats = p_step(params, stats, ")
    .replace(
        "state = jax.device_put_replicated(State(jnp.ones(3), jnp.zeros(())), jax.local_devices())",
        "params = jax.device_put_replicated(jnp.ones(3), jax.local_devices())\n"
        "stats = jax.device_put_replicated(jnp.zeros(()), jax.local_devices())",
    )
    .replace("first = jax.tree.map(lambda x: x[0], state)\n", "")
    .replace("first.params", "jax.tree.map(lambda x: x[0], params)")
    .replace("first.stats", "stats[0]")
)


def _shardlift(folder: Path, *arguments: str) -> str:
    environment = children.plain_environment(JAX_NUM_CPU_DEVICES="4", JAX_PLATFORMS="cpu")
    command = [sys.executable, "-m", "shardlift", *arguments]
    done = children.run(command, cwd=folder, env=environment, timeout=120)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.exhaustive
def test_the_rest_goes_with_and_without_a_change_by_hand(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    (tmp_path / "mixed.py").write_text(MIXED)
    (tmp_path / "apart.py").write_text(APART)
    printed = {}
    for name in ("mixed", "apart"):
        record = ["--quiet", "--record", f"{name}.json"]
        printed[name] = _shardlift(tmp_path, "run", *record, f"{name}.py")
    asked = ["--to", "global", "--write", "--facts"]
    _shardlift(tmp_path, "migrate", "mixed.py", *asked, "mixed.json")
    after = (tmp_path / "mixed.py").read_text()
    assert 'out_specs=State(params=jax.P(), stats=jax.P("i"))' in after
    _shardlift(tmp_path, "migrate", "apart.py", *asked, "apart.json")
    after = (tmp_path / "apart.py").read_text()
    assert 'in_specs=(jax.P(), jax.P("i"), jax.P("i"))' in after
    assert 'out_specs=(jax.P(), jax.P("i"))' in after
    for name in ("mixed", "apart"):
        again = _shardlift(tmp_path, "run", "--no-patch", "--quiet", f"{name}.py")
        before, now = (
            [x for line in text.splitlines() for x in json.loads(line)]
            for text in (printed["mixed"], again)
        )
        assert now == pytest.approx(before, rel=1e-5, abs=1e-7)
