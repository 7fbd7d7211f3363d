"""A train step in pmap, moved rightly and wrongly, and what is said of it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import shardlift
from shardlift import facts
from shardlift.capture import array_archive
from shardlift.facts import Recorder
from shardlift.recording.tape.options import TapeOptions
from shardlift.recording.tape.tape import Tape
from shardlift.verify.compare.array_distance import Tolerance
from shardlift.verify.compare.captured_run import CapturedRun
from shardlift.verify.compare.judge import judge
from shardlift.verify.compare.verdicts import GapKind
from tests.verify.recording import batch, before, compared, mesh, one, taped

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")

N, STEPS = 8, 3
rng = np.random.default_rng(0)
W = {"w": batch(rng, 5, 4), "v": batch(rng, 4)}
XS, YS = batch(rng, STEPS, N, 2, 5), batch(rng, STEPS, N, 2)


def keys(step):
    return jax.random.split(jax.random.PRNGKey(step), N)


def loss_of(p, x, y, key):
    kept = jax.random.bernoulli(key, 0.8, x.shape)
    return jnp.mean((jnp.tanh(jnp.where(kept, x, 0) @ p["w"]) @ p["v"] - y) ** 2)


def sgd(p, moments, g):
    return jax.tree.map(lambda a, d: a - 0.1 * d, p, g), moments


def signs(p, moments, g):
    """No moments, no scale: nothing that comes out shows a gradient that is too large."""
    return jax.tree.map(lambda a, d: a - 0.1 * jnp.sign(d), p, g), moments


def train_step(update, p, moments, x, y, key):
    loss, grads = jax.value_and_grad(loss_of)(p, x, y, key)
    grads = lax.pmean(grads, "batch")
    p, moments = update(p, moments, grads)
    return p, moments, lax.pmean(loss, "batch")


def start():
    return W, ()


def loop(step, state, batches):
    p, moments = state
    for x, y, key in batches:
        p, moments, loss = step(p, moments, x, y, key)
    return loss


def stacked():
    return [(XS[k], YS[k], keys(k)) for k in range(STEPS)]


def flat():
    return [(XS[k].reshape(-1, 5), YS[k].reshape(-1), keys(k)) for k in range(STEPS)]


def in_pmap(update):
    """The program before."""

    def program():
        step = functools.wraps(train_step)(functools.partial(train_step, update))
        p_step = jax.pmap(step, axis_name="batch", donate_argnums=(0, 1))
        loop(p_step, shardlift.device_put_replicated(start(), jax.devices()), stacked())

    return program


def per_device(fun):
    @functools.wraps(fun)
    def on_block(*block):
        return jax.tree.map(lambda x: x[None], fun(*jax.tree.map(lambda x: x[0], block)))

    return on_block


def in_shard_map(update):
    """Stacked as it was; what a tool that rewrites pmap writes."""

    def program():
        inner = functools.wraps(train_step)(functools.partial(train_step, update))

        @functools.partial(jax.jit, donate_argnums=(0, 1))
        def p_step(*args):
            return jax.shard_map(
                per_device(inner), mesh=mesh(), in_specs=P("batch"), out_specs=P("batch"),
                check_vma=False,
            )(*args)  # fmt: skip

        state = jax.tree.map(lambda x: np.stack([x] * N), start())
        loop(p_step, state, stacked())

    return program


def in_global(update, check_vma=False, reverse=False, one_key=False):
    """Parameters with no device axis, the batch in one piece; what a person writes."""

    def program():
        def local(p, moments, x, y, key):
            return train_step(update, p, moments, x, y, key[0])

        many = mesh(reverse=reverse)
        specs = (P(), P(), P("batch"), P("batch"), P() if one_key else P("batch"))
        p_step = jax.jit(
            jax.shard_map(local, mesh=many, in_specs=specs, out_specs=P(), check_vma=check_vma)
        )
        loop(p_step, start(), flat())

    return program


@functools.cache
def recorded(update, tapped=2):
    """The program before, run once for all tests."""
    return before(in_pmap(update), tapped=tapped)


def against(update, after, tolerance=None, tapped=2):
    old = recorded(update, tapped)
    return one(judge(old, taped(after, reference=old, tapped=tapped), tolerance))


@pytest.mark.parametrize("after", [in_shard_map, in_global])
def test_moved_rightly(after):
    found = against(sgd, after(sgd))
    assert found.verdict == "identical", found
    assert (found.calls, found.differing_calls) == (STEPS, 0)
    assert found.leaves == STEPS * 3
    assert found.collectives > 0
    assert found.notes == ()


@pytest.mark.parametrize("update", [sgd, signs])
def test_gradients_that_are_summed_twice(update):
    found = against(update, in_global(update, check_vma=True))
    assert found.verdict == "different"
    assert found.first.call == 0
    assert found.causes[0].startswith('every array of grads = lax.pmean(grads, "batch"): 8.000 ')
    assert "times too large: check_vma with unvarying parameters" in found.causes[0]
    in_outputs = [f for f in found.findings if f.part == "outputs" and f.call == 0]
    assert bool(in_outputs) is (update is not signs)
    assert found.itself


@pytest.mark.slow
def test_jit_with_shardings_is_another_program():
    """One loss over the whole batch, and no collectives to compare with."""

    def step_with(reduce):
        def train_step(p, moments, x, y, key):
            of = lambda p: jnp.mean((jnp.tanh(x @ p["w"]) @ p["v"] - y) ** 2)
            loss, grads = reduce(jax.value_and_grad(of)(p))
            return (*sgd(p, moments, grads), loss)

        return train_step

    def in_jit():
        rows = NamedSharding(mesh(), P("batch"))
        step = jax.jit(step_with(lambda x: x), in_shardings=(None, None, rows, rows, None))
        loop(step, start(), flat())

    def in_pmap():
        step = jax.pmap(step_with(lambda x: lax.pmean(x, "batch")), axis_name="batch")
        loop(step, shardlift.device_put_replicated(start(), jax.devices()), stacked())

    found = one(compared(in_pmap, in_jit, Tolerance(rtol=1e-6)))
    assert found.verdict in ("identical", "close")


# ---- programs


def test_static_arguments_and_other_axes():
    x = batch(rng, 4, N)

    def old():
        def scale(x, times, shift):
            return {"sum": lax.psum(x, "i") * times + shift, "x": x}

        jax.pmap(
            scale, axis_name="i", in_axes=(1, None, None), out_axes={"sum": None, "x": 1},
            static_broadcasted_argnums=1,
        )(x, 3, 0.5)  # fmt: skip

    def new():
        @functools.partial(jax.jit, static_argnames="times")
        def scale(x, times, shift):
            body = lambda x: {"sum": lax.psum(x[:, 0], "i") * times + shift, "x": x}
            specs = {"sum": P(), "x": P(None, "i")}
            many = mesh("i")
            return jax.shard_map(
                body, mesh=many, in_specs=P(None, "i"), out_specs=specs, check_vma=False
            )(x)

        scale(x, times=3, shift=0.5)

    found = one(compared(old, new))
    assert (found.verdict, found.leaves) == ("identical", 2)


def test_only_the_outermost_call_counts():
    def program():
        inner = jax.jit(lambda x: x + 1)

        def outer(x):
            return inner(x) * 2

        jax.pmap(outer)(np.ones((N, 2), np.float32))
        jax.grad(lambda x: inner(x).sum())(jnp.ones(2))

    sites = before(program).capture.sites
    assert [(site.function, len(site.samples)) for site in sites if site.samples] == [("outer", 1)]


def test_pmaps_inside_of_others_are_part_of_them():
    def program(under=None):
        inner = jax.pmap(lambda x: lax.psum(x, "j"), axis_name="j")

        def outer(x):
            return inner(x) * 2

        jax.pmap(outer, axis_name="i")(np.ones((2, 4), np.float32))
        if under is not None:
            double = jax.pmap(lambda x: 2 * x)
            under(lambda x: double(x).sum())(np.ones(N, np.float32))

    one_side = before(program)
    found = one(judge(one_side, one_side))
    assert (found.name, found.verdict) == ("outer", "identical")
    one_side = before(lambda: program(jax.grad))
    found = judge(one_side, one_side)
    assert [site.verdict for site in found] == ["identical", "not compared"]
    assert [gap.kind for gap in found[1].gaps] == [GapKind.TRANSFORMED]
    one_side = before(lambda: program(jax.jit))
    assert [site.verdict for site in judge(one_side, one_side)] == ["identical", "identical"]


def test_programs_are_left_as_they_were():
    stock = jax.jit, jax.shard_map, jax.pmap
    taped(lambda: jax.jit(lambda x: x)(jnp.ones(2)))
    assert (jax.jit, jax.shard_map, jax.pmap) == stock


def test_what_jit_returns_is_what_it_was():
    def program():
        class Model:
            @functools.partial(jax.jit, static_argnums=0)
            def double(self, x):
                return x * 2

        assert Model().double(jnp.ones(2)).tolist() == [2, 2]
        decorated = jax.jit(static_argnums=1)(lambda x, n: x * n)
        assert decorated(jnp.ones(2), 3).tolist() == [3, 3]
        assert decorated.lower(jnp.ones(2), 3).compile()(jnp.ones(2)).tolist() == [3, 3]
        assert decorated.eval_shape(jnp.ones(2), 3).shape == (2,)

    calls = {s.function: len(s.samples) for s in taped(program).capture.sites}
    assert calls == {"double": 1, "<lambda>": 1}  # not the one that was compiled by hand


@pytest.mark.slow
def test_values_beyond_the_bytes_that_are_kept():
    one_side = before(in_pmap(sgd), keep=100)
    kept = {id(bits): bits.nbytes for bits in one_side.arrays.values()}
    assert 0 < sum(kept.values()) <= 3 * 100
    found = one(judge(one_side, taped(in_global(sgd, check_vma=True), keep=100)))
    assert found.verdict == "different"
    assert any("--keep-bytes" in one.what for one in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize("form", [in_pmap, in_shard_map, in_global])
def test_facts_and_values_in_one_capture(form, tmp_path):
    """As `shardlift run --record --record-inputs` writes it."""
    recorder = Recorder(command=["train.py"], tape=Tape(TapeOptions(2**20)))
    with shardlift.legacy(patch=form is in_pmap, recorder=recorder):
        form(sgd)()
    path = tmp_path / "run.json"
    recorder.write(str(path))
    capture = facts.read(path)
    times = capture.sites[0].times  # of pmaps only
    assert times.call.count + times.compiling.count == (STEPS if form is in_pmap else 0)
    found = one(judge(recorded(sgd), CapturedRun(capture, array_archive.load(path))))
    assert (found.verdict, found.calls) == ("identical", STEPS)
