"""A program of many processes keeps jax.pmap; what places and reads arrays is rewritten."""

import pytest

from shardlift.rewrite.helpers import emit
from shardlift.source.model import HelperRequest
from shardlift.source.settings import Settings
from tests.processes.harness import run_processes
from tests.rewrite.test_programs import migrated

PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def train(s, b):
    return s + lax.psum(b, "i"), lax.pmean(b.sum(), "i")


step = jax.pmap(train, axis_name="i", donate_argnums=(0,))


def main():
    me, mine = jax.process_index(), jax.local_device_count()
    x = np.arange(me * mine * 3, (me + 1) * mine * 3, dtype=np.float32).reshape(mine, 3)
    state = jax.device_put_replicated(jnp.zeros(3), jax.local_devices())
    rows = jax.device_put_sharded(list(x), jax.local_devices())
    losses = []
    for batch in (rows, x, 2 * x):
        state, loss = step(state, batch)
        losses.append(float(loss[0]))
    assert state.is_fully_addressable
    return np.asarray(state).tolist(), losses
"""
BEFORE = """
import jax
import shardlift

jax.pmap = shardlift.pmap
jax.device_put_replicated = shardlift.device_put_replicated
jax.device_put_sharded = shardlift.device_put_sharded
"""
NAMES = ("replicate", "prefetch_to_device", "unreplicate")
PLACING = """
import jax
import numpy as np

def main():
    mine = jax.local_device_count()
    x = np.full((mine, 2), jax.process_index(), np.float32)
    whole = replicate({"w": x[0], "n": 1})
    fed = list(prefetch_to_device(iter([x, 2 * x]), 2))
    out = whole, fed, unreplicate(whole)
    assert all(leaf.is_fully_addressable for leaf in jax.tree.leaves(out))
    return jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), out)
"""


def body(texts):
    def result(text):
        names = {"__name__": "program"}
        exec(text, names)
        return names["main"]()

    return [result(text) for text in texts]


@pytest.mark.slow
def test_arrays_are_placed_and_read_in_each_process_as_before() -> None:
    after, result = migrated({"main.py": PROGRAM})
    text = after["main.py"]
    assert "step = jax.pmap(train, " in text
    assert "jax.device_put_" not in text
    assert "float(jax.device_get(loss)[0])" in text
    assert [choice.kept for choice in result.processes] == [True]
    emitted = emit(map(HelperRequest, NAMES)) + PLACING
    own = f"from shardlift import {', '.join(NAMES)}\n{PLACING}"
    texts = [text, BEFORE + PROGRAM, emitted, own]
    for process in run_processes(body, processes=2, devices=2, args=(texts,)):
        got, expected, placed, wanted = process.value
        assert got == expected
        assert placed == wanted


@pytest.mark.usefixtures("many_sites")
def test_sites_keep_pmap_and_all_else_is_rewritten() -> None:
    text = "import jax\njax.distributed.initialize()\nf = jax.pmap(jax.tree_map)\n"
    nested = "g = jax.pmap(jax.pmap(abs, 'j'), 'i')\nh = dict(p=jax.pmap)\n"
    after, result = migrated({"main.py": text + nested})
    assert after["main.py"] == (text + nested).replace("jax.tree_map", "jax.tree.map")
    reasons = [change.reason for change in result.files[0].refused]
    assert reasons == ["it keeps jax.pmap: several processes may run this program"] * len(reasons)
    one = Settings(many_processes=False)
    assert "spmd_map(jax.tree.map)" in migrated({"main.py": text}, settings=one)[0]["main.py"]
