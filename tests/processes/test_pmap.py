"""shardlift.pmap in jobs of real processes."""

import re
from collections.abc import Callable

import pytest

from .harness import Job, job_of, run_processes

pytestmark = pytest.mark.slow
EXHAUSTIVE = pytest.mark.exhaustive


def failed(job: Job, body: Callable[[], dict[str, bool]]) -> list[str]:
    values = job.values(body)
    assert all(values)
    return [name for value in values for name, good in value.items() if not good]


def calls():
    import jax
    import numpy as np
    from jax import lax

    import shardlift

    me, mine, world = jax.process_index(), jax.local_device_count(), jax.device_count()
    x = np.arange(me * mine, (me + 1) * mine, dtype=np.float32)
    everything = np.arange(world, dtype=np.float32)
    ok = {}

    def same(name, got, wanted):
        ok[name] = bool(np.array_equal(np.asarray(got), np.asarray(wanted)))

    total = shardlift.pmap(lambda v: lax.psum(v, "i"), "i")
    for turn in range(3):
        same(f"numpy {turn}", total(x), np.full(mine, everything.sum()))
    same("uncommitted", total(jax.numpy.asarray(x)), np.full(mine, everything.sum()))
    same("order", shardlift.pmap(lambda v: lax.axis_index("i"), "i")(x), x.astype(int))

    step = shardlift.pmap(lambda s, b: {"s": s["s"] + lax.pmean(b, "i"), "n": s["n"] + 1}, "i")
    state = {"s": x, "n": np.zeros(mine, np.int32)}
    for _ in range(3):
        state = step(state, x)
    same("state", state["s"], x + 3 * everything.mean())
    same("count", state["n"], np.full(mine, 3))
    ok["lies here"] = state["s"].is_fully_addressable and (
        [s.device for s in state["s"].addressable_shards] == jax.local_devices()
    )

    differing = shardlift.pmap(lambda v, w: v + w + 0 * lax.psum(v, "i"), "i", in_axes=(0, None))
    same("unmapped differs by process", differing(x, np.float32(100 * me)), x + 100 * me)
    along = shardlift.pmap(lambda v: v + lax.psum(v, "i"), "i", in_axes=1, out_axes=1)
    same("another axis", along(x[None]), x[None] + everything.sum())
    first = shardlift.pmap(lambda v: lax.psum(v, "i"), "i", out_axes=None)
    same("no device axis", first(x), everything.sum())
    renamed = shardlift.pmap(lambda v: v + lax.psum(v, "j"), "j")
    same("another axis name", renamed(total(x)), np.full(mine, everything.sum() * (world + 1)))

    keys = jax.random.split(jax.random.key(me), mine)
    bits = shardlift.pmap(lambda k: (jax.random.split(k)[0], jax.random.bits(k)))
    next_keys, drawn = bits(keys)
    same("keys", drawn, jax.vmap(jax.random.bits)(keys))
    same(
        "keys fed back",
        bits(next_keys)[1],
        jax.vmap(jax.random.bits)(jax.vmap(lambda k: jax.random.split(k)[0])(keys)),
    )

    here = shardlift.pmap(lambda v: lax.psum(v, "i"), "i", devices=jax.local_devices())
    same("local devices", here(x), np.full(mine, x.sum()))
    backwards = [d for p in reversed(range(jax.process_count())) for d in jax.local_devices(p)]
    turned = shardlift.pmap(lambda v: lax.axis_index("i"), "i", devices=backwards)
    same("devices in another order", turned(x), [backwards.index(d) for d in jax.local_devices()])

    if mine > 1:
        part = jax.local_devices(0)[: mine - 1] + [
            d for p in range(1, jax.process_count()) for d in jax.local_devices(p)
        ]
        uneven = shardlift.pmap(lambda v: lax.psum(v, "i"), "i", devices=part)
        rows = mine - 1 if me == 0 else mine
        same("uneven", uneven(np.ones(rows, np.float32)), np.full(rows, len(part)))
        fewer = total(np.ones(mine - 1, np.float32))
        same("fewer rows", fewer, np.full(mine - 1, (mine - 1) * jax.process_count()))
        nested = shardlift.pmap(shardlift.pmap(lambda v: lax.psum(v, ("i", "j")), "j"), "i")
        y = nested(x.reshape(2, -1))
        same("nested", y, np.full((2, mine // 2), everything.sum()))
        same("nested fed back", nested(y), np.full((2, mine // 2), everything.sum() * world))

    compiled = total.lower(x).compile()
    same("compiled", compiled(x), np.full(mine, everything.sum()))
    same("compiled fed back", compiled(compiled(x)), np.full(mine, everything.sum() * world))
    ok["eval_shape"] = total.eval_shape(x).shape == (mine,)
    ok["explain"] = total.explain(x).mesh.shape == {"i": world}
    return ok


def test_calls(job):
    assert failed(job, calls) == []


def global_view():
    import jax
    import numpy as np
    from jax import lax
    from jax.sharding import NamedSharding

    import shardlift

    me, mine, world = jax.process_index(), jax.local_device_count(), jax.device_count()
    x = np.arange(me * mine, (me + 1) * mine, dtype=np.float32)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    g = shardlift.stitch(x, mesh, jax.P("data"))
    f = shardlift.pmap(lambda v: v + lax.psum(v, "i"), "i", view="global")
    total = float(np.arange(world).sum())
    wanted = x + total
    ok = {}

    def same(name, got, wanted=wanted):
        ok[name] = bool(np.array_equal(np.asarray(shardlift.local_view(got)), wanted))

    y = f(g)
    same("plain", y)
    ok["global"] = y.shape == (world,) and y.sharding.device_set == set(jax.devices())
    same("fed back", f(y), wanted + total * (world + 1))
    same("jit", jax.jit(f)(g))
    scanned = jax.jit(lambda v: lax.scan(lambda c, _: (f(c), None), v, None, length=1)[0])
    same("scan", scanned(g))
    same("vmap", jax.vmap(f, in_axes=1, out_axes=1)(g[:, None])[:, 0])
    same("grad", jax.grad(lambda v: f(v).sum())(g), np.full(mine, 1.0 + world))
    same("compiled", f.lower(g).compile()(g))
    same("as_shard_map", f.as_shard_map(g)(g))
    ok["no conversion"] = isinstance(y.sharding, NamedSharding)
    return ok


def test_global_view(job):
    assert failed(job, global_view) == []


def transformed():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax

    import shardlift

    me, mine, world = jax.process_index(), jax.local_device_count(), jax.device_count()
    x = jnp.arange(me * mine, (me + 1) * mine, dtype=jnp.float32)
    everything = np.arange(world, dtype=np.float32)

    def by_sum(v, w):
        return v * v * w.sum() + lax.psum(v * w.sum(), "i")

    f = shardlift.pmap(by_sum, "i", in_axes=(0, None))
    total = shardlift.pmap(lambda v: lax.psum(v, "i"), "i")
    w = jnp.array([0.5, 0.5, 1.0])
    ok = {}

    def same(name, got, wanted):
        ok[name] = bool(np.allclose(np.asarray(got), np.asarray(wanted)))

    plain = np.asarray(x) ** 2 * 2 + everything.sum() * 2
    same("plain", f(x, w), plain)
    same("vmap", jax.vmap(f, (1, None), 1)(jnp.stack([x, x], 1), w), np.stack([plain, plain], 1))
    # d(sum over all processes of the outputs)/dx: every output holds the psum.
    by_x, by_w = jax.grad(lambda v, w: f(v, w).sum(), (0, 1))(x, w)
    same("grad", by_x, 4 * np.asarray(x) + 2 * world)
    # Of a value that goes to every device: the sum over the rows of this process.
    here = np.asarray(x)
    same("grad of unmapped", by_w, np.full(3, (here**2).sum() + here.sum() * world))
    same("jvp", jax.jvp(lambda v: f(v, w), (x,), (jnp.ones_like(x),))[1], 4 * here + 2 * world)
    same("checkpoint", jax.checkpoint(total)(x), np.full(mine, everything.sum()))
    jaxpr = jax.make_jaxpr(total)(x)
    same(
        "jaxpr",
        jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, x)[0],
        np.full(mine, everything.sum()),
    )

    compiled = {
        "jit": lambda: jax.jit(total)(x),
        "scan": lambda: lax.scan(lambda c, _: (total(c), None), x, None, length=2),
        "while": lambda: lax.fori_loop(0, 2, lambda _, c: total(c), x),
        "cond": lambda: lax.cond(x.sum() > 0, total, lambda v: v, x),
        "jit of grad": lambda: jax.jit(jax.grad(lambda v: total(v).sum()))(x),
    }
    for name, call in compiled.items():
        try:
            call()
            ok[name] = False
        except ValueError as error:
            ok[name] = 'view="global"' in str(error)
    same("still works", total(x), np.full(mine, everything.sum()))
    return ok


def test_under_a_transformation_the_right_number_or_a_refusal(job):
    assert failed(job, transformed) == []


job = job_of(calls, global_view, transformed)


def divergent(cases):
    import jax
    import numpy as np
    from jax import lax

    import shardlift

    me, mine = jax.process_index(), jax.local_device_count()
    first = me == 0
    f = shardlift.pmap(lambda v: lax.psum(v, "i"), "i")
    g = shardlift.pmap(lambda v: lax.pmax(v, "i") * 2, "i")
    x = np.ones((mine, 2), np.float32)
    f(x)

    def body(v):
        if not first:
            raise LookupError("only here")
        return lax.psum(v, "i")

    calls = {
        "rows": lambda: g(x if first else x[:-1]),
        "known here, new there": lambda: f(x if not first else x[:-1]),
        "shape": lambda: f(np.ones((mine, 3 if first else 4), np.float32)),
        "dtype": lambda: f(x.astype(np.int32 if first else np.float16)),
        "order": lambda: (g if first else shardlift.pmap(lambda v: v + 1, "i"))(x),
        "inconsistent": lambda: shardlift.pmap(lambda a, b: a + b, "i")(x, x if first else x[:-1]),
        "raises": lambda: shardlift.pmap(body, "i")(x),
        "absent": lambda: first and g(x),
    }
    errors = {}
    for case in cases:
        try:
            calls[case]()
        except Exception as error:
            if case == "known here, new there":
                raise  # the other process is in a collective, which the end of this one ends
            errors[case] = f"{type(error).__name__}: {error}"
    return errors


DIVERGENT = {
    "rows": r"process 0: .*\{'i': 8\}[\s\S]*process 1: .*\{'i': 6\}",
    "known here, new there": r"process 1: did not arrive within 5 s",
    "shape": r"process 0: pmap of body\.divergent.*float32\[8,3\].*\n  process 1: .*float32\[8,4\]",
    "dtype": r"int32\[8,2\][\s\S]*float16\[8,2\]",
    "order": r"process 0: .*line \d+[\s\S]*process 1: .*line \d+",
    "inconsistent": r"process 1: failed with ValueError: pmap got inconsistent sizes",
    "raises": r"process 1: failed with LookupError: .*only here",
    "absent": r"process 1: did not arrive within 5 s",
}


@pytest.mark.parametrize(
    "last", ["absent", pytest.param("known here, new there", marks=EXHAUSTIVE)]
)
def test_processes_that_differ_are_told_so_instead_of_hanging(last):
    """One job, one case after the other; after the last the processes count differently."""
    together = [case for case in DIVERGENT if case not in ("absent", "known here, new there")]
    cases = [*together, last] if last == "absent" else [last]
    results = run_processes(
        divergent, args=(cases,), check=False, timeout=100, env={"SHARDLIFT_GUARD_TIMEOUT": "5"}
    )
    errors = results[0].value or {last: results[0].error}
    assert list(errors) == cases, results[0].output
    for case, error in errors.items():
        assert error.startswith("DivergenceError"), error
        assert re.search(DIVERGENT[case], error), error
    assert all(result.status is not None for result in results), "one had to be ended"


def killed(when):
    import os
    import signal
    import time

    import jax
    import numpy as np
    from jax import lax

    import shardlift

    last = jax.process_index() == jax.process_count() - 1
    shardlift.barrier("both are here", timeout=30)
    step = shardlift.pmap(lambda v: v + lax.psum(v, "i"), "i")
    x = np.ones(jax.local_device_count(), np.float32)
    if when == "during":
        x = step(x)
        jax.block_until_ready(x)
    if last:
        if when == "during":
            time.sleep(0.5)  # the others are in the collective by now
        os.kill(os.getpid(), signal.SIGKILL)
    if when == "before":
        try:
            shardlift.barrier("after", timeout=2)
        except TimeoutError as error:
            print(error)
    for _ in range(3):
        x = step(x)
    jax.block_until_ready(x)
    return "went on without the others"


@pytest.mark.parametrize("when", ["before", pytest.param("during", marks=pytest.mark.exhaustive)])
def test_a_process_that_is_killed_ends_the_others(when):
    """Before a first step the guard notices, during a step the collective or JAX's heartbeat."""
    results = run_processes(
        killed,
        processes=2,
        devices=2,
        args=(when,),
        check=False,
        timeout=90,
        env={"SHARDLIFT_GUARD_TIMEOUT": "5"},
        # The guard must speak first: JAX's heartbeat ends the process at once.
        initialize={"heartbeat_timeout_seconds": 60 if when == "before" else 10},
    )
    survivor, dead = results
    assert dead.status == -9
    assert survivor.value is None
    assert survivor.status not in (0, None), survivor.output
    said = (survivor.error or "") + survivor.output
    if when == "before":
        assert "barrier 'after': after 2 s, process 1 of 2 did not arrive" in said
        assert "process 1: did not arrive within 5 s" in said
    assert any(word in said for word in ("process 1", "Gloo", "Connection", "task", "heartbeat"))
