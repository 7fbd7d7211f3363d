"""The shortcut that calls in a job of many processes take once their program is compiled."""

import pytest

from .harness import Job, job_of

pytestmark = pytest.mark.slow


def shortcut(private):
    import gc
    import weakref

    import jax
    import numpy as np
    from jax import lax

    import shardlift
    from shardlift import _compat

    taken, refused = [], []
    make = _compat.runner
    if private:

        def counting(*args):
            run = make(*args)
            if run is None:
                refused.append(args)
                return None
            return lambda leaves: (taken.append(len(leaves)), run(leaves))[1]

        _compat.runner = counting
    else:
        _compat.runner = lambda *_: None

    me, mine, world = jax.process_index(), jax.local_device_count(), jax.device_count()
    x = np.arange(me * mine, (me + 1) * mine, dtype=np.float32)
    total = np.arange(world, dtype=np.float32).sum()
    ok = {}

    def same(name, got, wanted, shortcuts=None):
        ok[name] = bool(np.array_equal(np.asarray(got), np.asarray(wanted)))
        if private and shortcuts is not None:
            ok[f"{name}: {shortcuts} shortcuts"] = len(taken) == shortcuts
        taken.clear()

    def step(state, batch, unused):
        return {"w": state["w"] + lax.psum(batch, "i"), "n": state["n"] + 1}

    p = shardlift.pmap(step, "i")
    state = {"w": x, "n": np.zeros(mine, np.int32)}
    state = p(state, x, x)
    same("first call converts", state["w"], x + total, 0)
    for _ in range(3):
        state = p(state, x, x)
    same("the next do not", state["w"], x + 4 * total, 3)
    same("count", state["n"], np.full(mine, 4))

    w = state["w"]
    same("used alone", w + 1, x + 4 * total + 1)
    same("reduced", jax.jit(lambda v: v.sum())(w), (x + 4 * total).sum())
    same("indexed", w[0], x[0] + 4 * total)
    same("moved", jax.device_put(w, jax.local_devices()[0]), x + 4 * total)
    ok["lies here"] = w.is_fully_addressable
    ok["its shards"] = [s.device for s in w.addressable_shards] == jax.local_devices()

    wide = {"w": np.stack([x, x], 1), "n": np.zeros(mine, np.int32)}
    same("another shape", p(wide, np.stack([x, x], 1), x)["w"], np.stack([x, x], 1) + total, 0)
    p(wide, np.stack([x, x], 1), x)
    same("shapes in turns", p(state, x, x)["w"], x + 5 * total, 2)
    half = {"w": x.astype(np.float16), "n": state["n"]}
    same("another dtype", p(half, x.astype(np.float16), x)["w"].dtype == np.float16, True, 0)
    many = p({"w": jax.numpy.asarray(x), "n": state["n"]}, jax.numpy.asarray(x), x)
    same("uncommitted", many["w"], x + total, 1)
    foreign = jax.device_put(x, jax.local_devices()[-1])
    silent = shardlift.pmap(lambda v: lax.psum(v, "i"), "i", reshard="silent")
    for _ in range(3):
        same("moved silently", silent(foreign), np.full(mine, total))

    scaled = shardlift.pmap(lambda k, v: k * lax.psum(v, "i"), "i", static_broadcasted_argnums=0)
    for k in (1, 2, 1, 2):
        found = scaled(k, x)
    same("static", found, np.full(mine, 2 * total), 2)
    keyword = shardlift.pmap(lambda v, *, w: v + lax.psum(w, "i"), "i")
    for _ in range(2):
        found = keyword(x, w=x)
    same("keyword", found, x + total, 1)

    giving = shardlift.pmap(lambda v: v + lax.psum(v, "i") * 0 + 1, "i", donate_argnums=0)
    old = giving(giving(x))
    new = giving(old)
    same("donated", new, x + 3, 2)
    ok["donated is gone"] = old.is_deleted()
    try:
        giving(old)
        ok["gone is gone"] = False
    except Exception as error:
        ok["gone is gone"] = "deleted" in str(error)

    ratio = shardlift.pmap(lambda v: v / lax.psum(v, "i"), "i")
    ratio(x + 1), ratio(x + 1)
    taken.clear()
    with jax.debug_nans(True):
        try:
            ratio(x * 0)
            ok["nans are found"] = False
        except FloatingPointError:
            ok["nans are found"] = not taken
    with jax.default_matmul_precision("highest"):
        same("another context", ratio(x + 1), (x + 1) / (total + world), 0)
    grad = jax.grad(lambda v: ratio(v).sum())(jax.numpy.asarray(x + 1))
    same("under a transformation", grad.shape, x.shape, 0)

    seen = []
    told = shardlift.pmap(lambda v: (jax.debug.callback(seen.append, v), lax.psum(v, "i"))[1], "i")
    ok["no program was refused"] = not refused
    for _ in range(3):
        told(x)
    jax.effects_barrier()
    ok["callbacks"] = len(seen) == 3 * mine
    ok["a program with effects is"] = bool(refused) is private

    kept = ratio(x + 1)
    gone = weakref.ref(kept)
    del kept
    gc.collect()
    ok["nothing is kept"] = gone() is None
    _compat.runner = make
    return ok


job = job_of(shortcut, shortcut=[True, False])


@pytest.mark.parametrize("private", [True, False], ids=["shortcut", "converted"])
def test_calls(job: Job, private: bool):
    for with_shortcut, without in job.values(shortcut):
        value = with_shortcut if private else without
        assert value == dict.fromkeys(value, True)
