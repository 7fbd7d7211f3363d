"""What collectives exchange, wherever they stand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from shardlift.capture.schema import RESULT_USE, ResultUse
from shardlift.recording.mapped_calls import JitCall
from shardlift.recording.tape import taps
from tests.verify.recording import mesh

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")

N = 8
X = np.arange(2.0 * N, dtype=np.float32).reshape(N, 2)
SUM = X.sum(0)


ROWS = P("i")


def kept(body, *args, check_vma=False, specs=ROWS, out=ROWS):
    mapped = jax.jit(
        jax.shard_map(body, mesh=mesh("i"), in_specs=specs, out_specs=out, check_vma=check_vma)
    )
    call = JitCall(body, (set(), set()), args or (X,), {})
    return taps.TracedProgram(mapped, call).look(call)


def look(body, *args, **options):
    held, hidden = kept(body, *args, **options)
    return {(one.form.path, one.form.about): np.asarray(one.values) for one in held}, hidden


def only(found, path):
    arrays = [array for (name, _), array in found.items() if name == path]
    assert len(arrays) == 1, found.keys()
    return arrays[0]


@pytest.mark.parametrize("check_vma", [False, True])
def test_results(check_vma):
    def body(x):
        return x + lax.psum(2 * x[0], "i")  # the line

    found, hidden = look(body, check_vma=check_vma)
    np.testing.assert_array_equal(only(found, "psum #1, result"), np.stack([2 * SUM] * N))
    assert {about for _, about in found} == {'return x + lax.psum(2 * x[0], "i")  # the line'}
    assert hidden == ""


def test_several_on_a_line_are_counted():
    found, _ = look(lambda x: x + sum(lax.psum((x[0], 3 * x[0]), "i")))
    np.testing.assert_array_equal(only(found, "psum #1, result")[0], SUM)
    np.testing.assert_array_equal(only(found, "psum #2, result")[0], 3 * SUM)


@pytest.mark.parametrize("check_vma", [False, True])
@pytest.mark.parametrize(
    ("mean", "returned", "added"),
    [
        (lambda x: lax.pmean(x, "i"), 1 / 8, 1 / 8),
        (lambda x: lax.psum(x, "i") / 8, 1, 1 / 8),
        (lambda x: lax.psum(x, "i") * 0.125, 1, 1 / 8),
        (lambda x: 8 * lax.pmean(x, "i"), 1 / 8, 1),
        (lambda x: lax.psum(x, "i"), 1, 1),
        (lambda x: -2 * lax.psum(x, "i"), 1, -2),
        (jax.jit(lambda x: lax.pmean(x, "i") / 4), 1 / 8, 1 / 32),
    ],
    ids=["pmean", "divided", "multiplied", "again", "psum", "negative", "jit"],
)
def test_the_uses_of_a_result(mean, returned, added, check_vma):
    (held,), hidden = kept(lambda x: x + mean(x[0]), check_vma=check_vma)
    assert hidden == ""
    assert held.form.collective == "psum"
    np.testing.assert_array_equal(np.asarray(held.values)[0], SUM)
    add = ResultUse("add", abs(added))
    assert held.form.uses == (ResultUse(RESULT_USE, returned), add)


def test_factors_that_the_program_computes():
    found, _ = look(lambda x: x - x[0, 1] * lax.pmean(x[0], "i"))
    np.testing.assert_array_equal(only(found, "psum #1, factors"), [[1, x[1]] for x in X])


def test_a_mean_over_groups():
    pairs = [[0, 1], [2, 3], [4, 5], [6, 7]]
    found, _ = look(lambda x: x + lax.pmean(x[0], "i", axis_index_groups=pairs))
    np.testing.assert_array_equal(only(found, "psum #1, result")[0], X[:2].sum(0))


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint], ids=["jit", "checkpoint"])
def test_inside_of_other_functions(wrap):
    inner = wrap(lambda x: lax.psum(x, "i"))
    found, hidden = look(lambda x: x + inner(x[0]))
    assert hidden == ""
    result = only(found, "psum #1, result")
    np.testing.assert_array_equal(result.reshape(N, 2), np.stack([SUM] * N))


def test_every_turn_of_a_scan():
    def body(x):
        carry, _ = lax.scan(lambda c, k: (lax.psum(c, "i") * k, None), x[0], jnp.float32([1, 2]))
        return x + carry

    found, _ = look(body)
    result = only(found, "psum #1, result")
    assert result.shape == (N, 2, 2)
    np.testing.assert_array_equal(result[0], np.stack([SUM, N * SUM]))


def test_custom_rules():
    @jax.custom_vjp
    def f(x):
        return lax.psum(x, "i")

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * x,))
    found, hidden = look(lambda x: x + f(x[0]))
    np.testing.assert_array_equal(only(found, "psum #1, result")[0], SUM)
    assert hidden == ""


def summed_in_a_loop(reduce, x):
    turn = lambda state: (state[0] + 1, reduce(state[1]))
    return lax.while_loop(lambda state: state[0] < 3, turn, (0, x))[1]


@pytest.mark.parametrize(
    ("name", "control"),
    [
        ("while", summed_in_a_loop),
        ("cond", lambda reduce, x: lax.cond(x[0] < 99, reduce, lambda x: x, x)),
    ],
)
def test_loops_that_end_by_a_condition_and_branches_are_not_followed(name, control):
    found = look(lambda x: x + control(lambda y: lax.pmean(y, "i"), x[0]))
    assert found == ({}, f"those inside of {name} are not followed")


def test_what_no_output_depends_on_is_left_out():
    def body(x):
        printed = jax.jit(lambda x: lax.pmean(jnp.sum(x), "i"))(x)
        jax.debug.print("{}", printed)
        return x + lax.pmax(x[0], "i")

    found, _ = look(body)
    assert [name for name, _ in found] == ["pmax #1, result"]


def test_gradients_of_unvarying_values_are_summed_in_the_backward_pass():
    def body(w, x):
        g = jax.grad(lambda w: jnp.sum(w * x[0]))(w)
        return w - lax.pmean(g, "i")

    specs = (P(), P("i"))
    found, _ = look(body, SUM, X, check_vma=True, specs=specs, out=P())
    np.testing.assert_array_equal(only(found, "psum (backward pass) #1, result")[0], SUM)
    np.testing.assert_array_equal(only(found, "psum #1, result")[0], N * SUM)
    found, _ = look(body, SUM, X, specs=specs, out=P())
    np.testing.assert_array_equal(only(found, "psum #1, result")[0], SUM)


def test_nothing_is_printed_twice_and_nobody_is_called_back(capfd):
    def loud(x):
        jax.debug.print("said {}", x.sum())
        return x + lax.psum(x, "i")

    found, hidden = look(loud)
    jax.effects_barrier()
    assert "said" not in capfd.readouterr().out
    assert (len(found), hidden) == (1, "")

    called = []

    def calling(x):
        jax.debug.callback(lambda: called.append(1))
        y = jax.experimental.io_callback(lambda x: x, jax.typeof(x), x)
        return y + lax.psum(x, "i")

    found, hidden = look(calling)
    assert (found, called) == ({}, [])
    assert "calls back to the host" in hidden


def test_nested_maps():
    many = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b"))

    def inner(x):
        return x + lax.psum(x, "b")

    def outer(x):
        y = jax.shard_map(inner, in_specs=P("b"), out_specs=P("b"), axis_names={"b"})(x)
        return y + lax.psum(x, "a")

    mapped = jax.jit(
        jax.shard_map(outer, mesh=many, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
    )
    call = JitCall(outer, (set(), set()), (X,), {})
    held, _ = taps.TracedProgram(mapped, call).look(call)
    shapes = {one.form.path: one.form.shape for one in held}
    assert shapes["psum #1, result"][0] == 2
