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
from shardlift.verify.compare.bits import Tolerance
from shardlift.verify.compare.judge import judge
from shardlift.verify.compare.verdicts import GapKind
from tests.rounding import tolerance
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


def adam(p, moments, g):
    m, v = moments
    m = jax.tree.map(lambda m, d: 0.9 * m + 0.1 * d, m, g)
    v = jax.tree.map(lambda v, d: 0.99 * v + 0.01 * d * d, v, g)
    step = lambda a, m, v: a - 0.1 * (m / 0.1) / (jnp.sqrt(v / 0.01) + 1e-8)
    return jax.tree.map(step, p, m, v), (m, v)


def signs(p, moments, g):
    """No moments, no scale: nothing that comes out shows a gradient that is too large."""
    return jax.tree.map(lambda a, d: a - 0.1 * jnp.sign(d), p, g), moments


def train_step(update, p, moments, x, y, key):
    loss, grads = jax.value_and_grad(loss_of)(p, x, y, key)
    grads = lax.pmean(grads, "batch")
    p, moments = update(p, moments, grads)
    return p, moments, lax.pmean(loss, "batch")


def start(update):
    zeros = jax.tree.map(np.zeros_like, W)
    return W, ((zeros, zeros) if update is adam else ())


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
        loop(p_step, shardlift.device_put_replicated(start(update), jax.devices()), stacked())

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

        state = jax.tree.map(lambda x: np.stack([x] * N), start(update))
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
        loop(p_step, start(update), flat())

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
    assert (found.calls, found.differing_calls, found.replays) == (STEPS, 0, 0)
    assert found.leaves == STEPS * 3
    assert found.collectives > 0
    assert found.notes == ()


@pytest.mark.slow
@pytest.mark.parametrize("after", [in_shard_map, in_global, in_pmap])
def test_moved_rightly_with_moments(after):
    # XLA may fuse the update of a larger program otherwise; how, depends on the CPU.
    found = against(adam, after(adam), Tolerance(rtol=tolerance("float32", 300)))
    assert found.verdict == ("close" if after is in_global and found.findings else "identical")
    assert found.leaves == STEPS * 7


@pytest.mark.parametrize("update", [sgd, pytest.param(adam, marks=pytest.mark.slow), signs])
def test_gradients_that_are_summed_twice(update):
    found = against(update, in_global(update, check_vma=True))
    assert found.verdict == "different"
    assert found.first.call == 0
    assert found.causes[0].startswith('every array of grads = lax.pmean(grads, "batch"): 8.000 ')
    assert "times too large: check_vma with unvarying parameters" in found.causes[0]
    hidden = [one for one in found.findings if one.part == "outputs" and one.call == 0]
    assert bool(hidden) is (update is not signs)


@pytest.mark.slow
def test_what_only_the_collectives_show_is_not_seen_without_them():
    found = against(signs, in_global(signs, check_vma=True), tapped=0)
    assert (found.verdict, found.collectives) == ("identical", 0)


@pytest.mark.slow
def test_adam_without_a_look_inside():
    found = against(adam, in_global(adam, check_vma=True), tapped=0)
    assert found.verdict == "different"
    said = " ".join(found.causes)
    assert "8.000 times too large, the number of devices" in said
    assert "64.000 times too large, the square of the number of devices" in said


@pytest.mark.slow
def test_updates_that_are_too_large():
    found = against(sgd, in_global(sgd, check_vma=True), tapped=0)
    assert any("the update is 8.000 times too large" in cause for cause in found.causes)


@pytest.mark.slow
def test_replays_say_which_function_it_is():
    found = against(sgd, in_global(sgd, check_vma=True))
    assert found.replays == STEPS - 1  # the first call had the same inputs anyway
    assert "this function itself" in found.causes[-1]


@pytest.mark.slow
def test_one_key_for_all_devices():
    found = against(sgd, in_global(sgd, one_key=True))
    assert found.verdict == "different"
    assert found.first.call == 0


@pytest.mark.slow
def test_jit_with_shardings_is_another_program():
    """One loss over the whole batch: close without dropout, another key with it."""

    def program(dropout):
        def whole(p, moments, x, y, key):
            loss, grads = jax.value_and_grad(loss_of)(p, x, y, key[0])
            return (*sgd(p, moments, grads), loss)

        def plain(p, moments, x, y, key):
            of = lambda p: jnp.mean((jnp.tanh(x @ p["w"]) @ p["v"] - y) ** 2)
            loss, grads = jax.value_and_grad(of)(p)
            return (*sgd(p, moments, grads), loss)

        rows = NamedSharding(mesh(), P("batch"))
        train_step = jax.jit(
            whole if dropout else plain, in_shardings=(None, None, rows, rows, None)
        )
        loop(train_step, start(sgd), flat())

    def without_dropout():
        def train_step(p, moments, x, y, key):
            of = lambda p: jnp.mean((jnp.tanh(x @ p["w"]) @ p["v"] - y) ** 2)
            loss, grads = jax.value_and_grad(of)(p)
            grads, loss = lax.pmean((grads, loss), "batch")
            return (*sgd(p, moments, grads), loss)

        p_step = jax.pmap(train_step, axis_name="batch")
        loop(p_step, shardlift.device_put_replicated(start(sgd), jax.devices()), stacked())

    near = Tolerance(rtol=1e-6)
    found = one(compared(without_dropout, lambda: program(False), near))
    assert found.verdict in ("identical", "close")  # there are no collectives to compare with
    found = against(sgd, lambda: program(True), near)
    assert (found.verdict, found.first.call) == ("different", 0)


# ---- rows


def test_the_index_of_another_order_of_devices():
    x = batch(rng, N, 3)

    def scaled(x, index):
        return x * (1 + index).astype(x.dtype)

    def old():
        jax.pmap(lambda x: scaled(x, lax.axis_index("i")), "i")(x)

    def new(right):
        many = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b"))

        def body(x):
            a, b = lax.axis_index("a"), lax.axis_index("b")
            return scaled(x, 4 * a + b if right else 2 * b + a)

        rows = P(("a", "b"))
        jax.jit(jax.shard_map(body, mesh=many, in_specs=rows, out_specs=rows))(x)

    assert one(compared(old, lambda: new(True))).verdict == "identical"
    assert one(compared(old, lambda: new(False))).verdict == "different"


def test_rows_that_come_out_in_another_order():
    x = batch(rng, N, 3)

    def new(order):
        many = mesh("i")
        turn = lambda x: lax.ppermute(x, "i", [(k, order[k]) for k in range(N)])
        jax.jit(jax.shard_map(turn, mesh=many, in_specs=P("i"), out_specs=P("i")))(x)

    found = one(compared(lambda: jax.pmap(lambda x: x, "i")(x), lambda: new([*range(1, N), 0])))
    assert found.verdict == "different"
    assert "the same rows in another order, [7, 0, 1, 2, 3, 4, 5, 6]" in found.causes[0]


def test_an_output_that_varies_returned_as_if_it_did_not():
    x = batch(rng, N, 3)

    def new():
        many = mesh("i")
        body = lambda x: x[0] * 2
        jax.jit(jax.shard_map(body, mesh=many, in_specs=P("i"), out_specs=P(), check_vma=False))(x)

    found = one(compared(lambda: jax.pmap(lambda x: x * 2, "i")(x), new))
    assert found.verdict == "different"
    assert "the copies on the devices disagree" in found.first.what


def test_the_first_row_for_all():
    x = batch(rng, N, 3)
    old = lambda: jax.pmap(lambda x: x * 2, "i")(x)
    found = one(compared(old, lambda: jax.pmap(lambda x: x * 2, "i", out_axes=None)(x)))
    assert "out_axes=None for a value that varies" in found.causes[0]


def test_a_missing_mean():
    x = batch(rng, N, 3)
    old = lambda: jax.pmap(lambda x: lax.pmean(x, "i"), "i")(x)
    found = one(compared(old, lambda: jax.pmap(lambda x: x + 0, "i")(x)))
    assert "a pmean or psum is missing" in found.causes[0]


def test_a_sum_for_a_mean():
    x = batch(rng, N, 3)
    old = lambda: jax.pmap(lambda x: lax.pmean(x, "i"), "i")(x)
    found = one(compared(old, lambda: jax.pmap(lambda x: lax.psum(x, "i"), "i")(x)))
    assert "8.000 times too large, the number of devices" in found.causes[0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int8", "bool", "complex64"])
def test_types(dtype):
    x = np.arange(N * 3).reshape(N, 3) % 2

    def program(other):
        def f(x):
            return x.astype(dtype), x[:0]

        jax.pmap(f)(jnp.asarray(x if not other else 1 - x).astype(jnp.float32))

    assert one(compared(lambda: program(False), lambda: program(False))).verdict == "identical"
    assert one(compared(lambda: program(False), lambda: program(True))).verdict == "different"


def test_typed_keys():
    def program(fold):
        def split(key):
            return jax.random.split(jax.random.fold_in(key, fold))

        jax.pmap(split)(jax.random.split(jax.random.key(0), N))

    assert one(compared(lambda: program(1), lambda: program(1))).verdict == "identical"
    assert one(compared(lambda: program(1), lambda: program(2))).verdict == "different"


# ---- programs


def test_a_crash_halfway():
    def program(until):
        f = jax.pmap(lambda x: x + 1)
        x = batch(np.random.default_rng(1), N, 2)
        for k in range(4):
            if k == until:
                raise ArithmeticError
            x = f(x)

    found = one(compared(lambda: program(9), lambda: program(2)))
    assert (found.verdict, found.calls, found.differing_calls) == ("different", 2, 0)
    assert found.first.what == "4 calls before, 2 after"


def test_a_call_that_raises():
    def program(bad):
        def f(x):
            if bad and x.shape[-1] == 3:
                raise ArithmeticError
            return x + 1

        for width in (2, 3):
            jax.pmap(f)(np.zeros((N, width), np.float32))

    found = one(compared(lambda: program(False), lambda: program(True)))
    assert found.first.what == "the call raised an error after: ArithmeticError"


def test_a_program_that_differs_from_itself():
    turns = iter(range(9))

    def program():
        jax.pmap(lambda x: x)(np.full((N,), float(next(turns)), np.float32))

    assert one(compared(program, program)).verdict == "different"


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
    assert calls == {"double": 1, "<lambda>": 2}  # one of them compiled by hand


def test_the_vmap_oracle():
    def old():
        def f(x, n):
            return lax.pmean(x * n, "i"), lax.axis_index("i"), x

        jax.pmap(
            f, axis_name="i", out_axes=(None, 0, 1), static_broadcasted_argnums=1
        )(batch(np.random.default_rng(2), N, 3), 2)  # fmt: skip

    direct = before(old)
    found = one(judge(before(old, oracle="vmap"), direct, Tolerance(rtol=1e-6)))
    assert found.verdict == "partly compared"
    assert found.leaves == 3


@pytest.mark.slow
def test_values_beyond_the_bytes_that_are_kept():
    one_side = before(in_pmap(sgd), keep=100)
    kept = {id(bits): bits.nbytes for bits in one_side.arrays.values()}
    assert 0 < sum(kept.values()) <= 3 * 100
    found = one(judge(one_side, taped(in_global(sgd, check_vma=True), keep=100)))
    assert found.verdict == "different"
    assert any("--keep-bytes" in one.what for one in found.findings)


@pytest.mark.slow
def test_facts_and_values_in_one_capture(tmp_path):
    from shardlift import facts
    from shardlift.capture import values
    from shardlift.facts import Recorder
    from shardlift.recording.tape.options import TapeOptions
    from shardlift.recording.tape.tape import Tape
    from shardlift.verify.compare.recorded import Recorded

    recorder = Recorder(command=["train.py"], tape=Tape(TapeOptions(2**20, 2**20, jit=False)))
    with shardlift.legacy(recorder=recorder):
        in_pmap(sgd)()
    path = tmp_path / "run.json"
    recorder.write(str(path))
    capture = facts.read(path)
    assert capture.sites[0].times.call.count + capture.sites[0].times.compiling.count == STEPS
    found = one(judge(Recorded(capture, values.load(path)), taped(in_global(sgd))))
    assert (found.verdict, found.calls) == ("identical", STEPS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("moved", [in_shard_map, in_global])
def test_a_capture_of_the_migrated_program(moved):
    """As `shardlift run --record --record-inputs` writes it."""
    from shardlift.facts import Recorder
    from shardlift.recording.tape.options import TapeOptions
    from shardlift.recording.tape.tape import Tape
    from tests.verify.recording import recorded as frozen

    tape = Tape(TapeOptions(2**20, 2**20, jit=False))
    recorder = Recorder(command=["new.py"], tape=tape)
    with shardlift.legacy(patch=False, recorder=recorder):
        moved(sgd)()
    found = one(judge(recorded(sgd), frozen(recorder, tape)))
    assert (found.verdict, found.calls) == ("identical", STEPS)
