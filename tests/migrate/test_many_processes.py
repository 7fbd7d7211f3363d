"""A program of many processes, migrated: the same rows in each process as before."""

from __future__ import annotations

import pytest

from tests.migrate.test_programs import migrated
from tests.processes.harness import run_processes

PROGRAM = """
import functools
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

pmap = functools.partial(jax.pmap, axis_name="j")


@functools.partial(jax.pmap, axis_name="i", static_broadcasted_argnums=(0,))
def scaled(n, x, *, y):
    return lax.psum(x, "i") * n + y


def main():
    me, mine = jax.process_index(), jax.local_device_count()
    x = np.arange(me * mine * 3, (me + 1) * mine * 3, dtype=np.float32).reshape(mine, 3)
    out = {}
    out["sum"] = jax.pmap(lambda v: lax.psum(v, "i"), "i")(x)
    out["index"] = jax.pmap(lambda v: v * 0 + lax.axis_index("i").astype(v.dtype), "i")(x)
    out["one"] = jax.pmap(lambda v: lax.pmean(v, "i"), "i", out_axes=None)(x)
    out["axes"] = jax.pmap(lambda v, w: v + w, in_axes=(1, None), out_axes=1)(x.T, np.float32(2))
    out["number"] = jax.pmap(lambda v, n: v * n, in_axes=(0, None))(x, 3)
    out["whole"] = jax.pmap(lambda v, w: v + w.sum(0), in_axes=(0, None))(x, out["sum"])
    out["static"] = scaled(3.0, x, y=x)
    out["handed on"] = pmap(lambda v: lax.all_gather(v, "j"))(x)
    out["here"] = jax.pmap(lambda v: lax.psum(v, "i"), "i", devices=jax.local_devices())(x)
    step = jax.pmap(lambda s, b: s + lax.pmean(b, "i"), axis_name="i", donate_argnums=(0,))
    state = jnp.array(x)
    for _ in range(3):
        state = step(state, x)
    out["fed back"] = state
    keys = jax.random.split(jax.random.key(me), mine)
    out["keys"] = jax.pmap(lambda k: jax.random.normal(k, (2,)))(keys)
    assert all(leaf.is_fully_addressable for leaf in jax.tree.leaves(out))
    return {name: np.asarray(value).tolist() for name, value in out.items()}
"""


FIRST_AXIS = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

step = jax.pmap(lambda s, b: s + lax.pmean(b, "i"), axis_name="i", donate_argnums=(0,))
evaluate = jax.pmap(lambda s, *, b: {"sum": lax.psum(s["w"] * b, "j"), "mine": b}, "j")


def main():
    me, mine = jax.process_index(), jax.local_device_count()
    x = np.arange(me * mine * 3, (me + 1) * mine * 3, dtype=np.float32).reshape(mine, 3)
    state, kept = jnp.array(x), jnp.array(x)
    out = {}
    for k in range(3):
        state = step(state, x)
        out[f"evaluated {k}"] = evaluate({"w": state}, b=kept)
        out[f"on one device {k}"] = evaluate({"w": jnp.array(x)}, b=x)
    out["fed back"] = state
    keys = jax.random.split(jax.random.key(me), mine)
    out["keys"] = jax.pmap(lambda k: jax.random.normal(k, (2,)), "i")(keys)
    assert all(leaf.is_fully_addressable for leaf in jax.tree.leaves(out))
    return jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), out)
"""
# How the helper makes global arrays: each leaf by its axes, or all of them in one call.
PROGRAMS = {"_joined,": PROGRAM, "to_global(": FIRST_AXIS}


def body(pairs):
    import jax

    import shardlift

    def result(text, pmap):
        jax.pmap = pmap
        names = {"__name__": "program"}
        exec(text, names)
        return names["main"]()

    return [(result(before, shardlift.pmap), result(after, None)) for before, after in pairs]


@pytest.mark.slow
def test_each_process_gets_its_own_rows_as_before() -> None:
    pairs = []
    for sign, program in PROGRAMS.items():
        after, result = migrated({"main.py": program})
        assert not any(file.refused for file in result.files)
        assert sign in after["main.py"]
        pairs.append((program, after["main.py"]))
    for process in run_processes(body, processes=2, devices=2, args=(pairs,)):
        for expected, got in process.value:
            assert got == expected
