"""Programs of many processes on global arrays: their text, and two real processes that run it."""

from __future__ import annotations

import pytest

from shardlift.rewrite.goal import Goal
from tests.processes.harness import run_processes
from tests.rewrite.test_programs import migrated

HEAD = """\
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.distributed.initialize()


"""
STEP = """\
@functools.partial(jax.pmap, axis_name="batch", donate_argnums=(0,))
def step(params, x, key, y):
    noisy = x + 0.1 * jax.random.normal(key, x.shape)
    index = lax.axis_index("batch").astype(y.dtype)
    change = {"w": (noisy * y[:, None]).mean(0), "rank": index * y.sum()}
    return lax.pmean(jax.tree.map(jnp.subtract, params, change), "batch")


"""
BODY = """\
def batch(turn):
    rng = np.random.default_rng(turn + 10 * jax.process_index())
    x = rng.normal(size=(8, 3)).astype(np.float32)
    return x.reshape(jax.local_device_count(), -1, *x.shape[1:]), x[:, 0]


def shard(x):
    return x.reshape((jax.local_device_count(), -1) + x.shape[1:])


def main():
    start = {"w": np.ones(3, np.float32), "rank": np.float32(0)}
    params = jax.device_put_replicated(start, jax.local_devices())
    keys = jax.random.split(jax.random.PRNGKey(jax.process_index()), jax.local_device_count())
    seen = []
    for turn in range(3):
        x, y = batch(turn)
        params = step(params, x, keys, shard(y))
        now = jax.tree.map(lambda p: p[0], params)["w"]
        seen.append(float(jax.tree.map(lambda p: p[0], params)["rank"]))
        if jax.process_index() == 1:
            seen.append(float(now.sum()) + float(jax.tree.map(lambda p: p[0], params)["w"][0]))
    first = jax.tree.map(lambda p: p[0], params)
    if jax.process_index() == 0:  # an operation on arrays of all processes would hang here
        first = jax.tree.map(lambda p: p + 1, first)
    return seen, jax.tree.map(lambda p: np.asarray(p).tolist(), first)
"""
GUARD = '\n\nif __name__ == "__main__":\n    print(main())\n'
PROGRAM = HEAD + STEP + BODY + GUARD


def written(text: str) -> str:
    return migrated({"main.py": text}, goal=Goal.GLOBAL)[0]["main.py"]


def test_each_process_brings_its_part_of_the_batch() -> None:
    after = written(PROGRAM)
    ordered = "sorted(jax.devices(), key=lambda device: device.process_index)"
    assert f'mesh = jax.sharding.Mesh({ordered}, ("batch",))\n' in after
    assert 'over_batch = jax.NamedSharding(mesh, jax.P("batch"))\n' in after
    joined = "*jax.make_array_from_process_local_data(over_batch, (x, keys, y))"
    assert f"params = step(params, {joined})" in after
    assert "first = jax.tree.map(lambda x: jnp.copy(x.addressable_data(0)), params)" in after
    local = "jax.tree.map(lambda x: x.addressable_data(0), params)"
    assert f'seen.append(float({local}["rank"]))' in after
    assert "raise RuntimeError" not in after  # it is written for several processes


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        # The mesh may be needed before it is known.
        ("jax.distributed.initialize()\n", "",
         "is not in one script with all that calls it: call jax.distributed.initialize() at the"),
        ("keys, shard(y))", "keys, y=shard(y))",
         "give all arguments by position"),
        ("step(params, x, keys, shard(y))", "step(params, *(x, keys, shard(y)))",
         "name each argument"),
        ('axis_name="batch", ', 'axis_name="batch", in_axes=(0, 0, None, 0), ',
         "has axes of None: leave them out, and replicate the argument"),
        ("params = step(", "params, keys = step(",
         "returns one row per device: return its lax.pmean, or let it stay one per device"),
        ("turn in range(3):\n        x, y = batch(turn)", "x, y in PREFETCHED:",
         "is given batches that are on devices already: leave out prefetch_to_device"),
        ("        x, y = batch(turn)", "        x, y = batch(turn) if turn else step(turn)", ""),
        ("step(params, x, keys", "step(params, jax.pmap(abs)(x), keys",
         "may be given an output, or an array of this process"),
    ],
)  # fmt: skip
def test_otherwise_each_process_keeps_arrays_of_its_own(before: str, after: str, why: str) -> None:
    text = PROGRAM.replace(before, after)
    if not after:
        text = text.replace("def main():\n", f"def main():\n    {before}")
    if "PREFETCHED" in after:
        prefetched = "jax_utils.prefetch_to_device(map(batch, range(3)), 2)"
        text = f"from flax import jax_utils\n{text.replace('PREFETCHED', prefetched)}"
    if "keys = " in after:
        returned = 'return lax.pmean(jax.tree.map(jnp.subtract, params, change), "batch")'
        text = text.replace(returned, f"{returned}, key")
    changed, migration = migrated({"main.py": text}, goal=Goal.GLOBAL)
    said = [change.reason for file in migration.files for change in file.refused]
    assert "make_array_from_process_local_data" not in changed["main.py"]
    assert "shard_map" not in changed["main.py"]
    assert any(why in one for one in said)


def body(before: str, after: str) -> list[object]:
    import jax

    import shardlift

    jax.distributed.initialize = lambda: None  # it is done
    found = []
    with shardlift.legacy():
        for text in (before, after):
            names = {"__name__": "program"}
            exec(text, names)
            found.append(names["main"]())
    return found


@pytest.mark.exhaustive
def test_two_processes_compute_the_same_as_before() -> None:
    results = run_processes(body, processes=2, devices=2, args=(PROGRAM, written(PROGRAM)))
    for process in results:
        (seen, params), (seen_after, params_after) = process.value
        assert seen_after == pytest.approx(seen, rel=1e-6)
        assert params_after["w"] == pytest.approx(params["w"], rel=1e-6)
        assert params_after["rank"] == pytest.approx(params["rank"], rel=1e-6)
