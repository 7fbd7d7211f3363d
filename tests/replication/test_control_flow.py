"""Loops, branches, calls and derivatives, held against a run."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.custom_batching import custom_vmap

from shardlift._replication import control_flow
from tests.replication.checking import N, proven, reason, rows, same


def test_a_call_of_an_unknown_form(monkeypatch):
    monkeypatch.setattr(control_flow, "called_jaxpr", lambda _: None)
    said = reason(lambda x: jax.jit(lambda v: v + 1)(x), same(), equal=0)
    assert "calls a function in an unknown way" in str(said)


# ---- scan


def test_scan_keeps_what_is_equal_apart_from_what_is_not():
    def body(w, x):
        def step(carry, y):
            w, total = carry
            return (w * 0.5, total + y), (w + 1, y * w)

        return lax.scan(step, (w, 0.0), x)

    assert proven(body, same(), rows(4), equal=0) == ((True, False), (True, False))


def test_scan_goes_on_until_nothing_changes():
    """What is not equal comes into the last carry only after three rounds."""

    def body(w, x):
        def step(carry, _):
            a, b, c, d = carry
            return (a, a + b, b + c, c + d), d

        return lax.scan(step, (x, w, w, w), length=5)

    carry, ys = proven(body, same(), rows(), equal=0)
    assert (carry, ys) == ((False,) * 4, False)


# ---- while


def test_a_predicate_that_is_not_equal_makes_all_carries_unequal():
    def body(w, x):
        return lax.while_loop(lambda c: c[0] < x, lambda c: (c[0] + 0.3, c[1] * 2), (w, w))

    assert proven(body, same(), rows(), equal=0) == (False, False)
    said = reason(lambda w, x: body(w, x)[1], same(), rows(), equal=0)
    assert said.argument == "x"


def test_a_predicate_that_is_summed_lets_them_be():
    def body(w, x):
        return lax.while_loop(
            lambda c: lax.pmax(c[1], "i") < 5.0, lambda c: (c[0] * 2, c[1] + jnp.abs(x)), (w, w)
        )

    assert proven(body, same(), rows(), equal=0) == (True, False)


def test_a_predicate_that_becomes_unequal_on_the_way():
    def body(w, x):
        def step(c):
            count, a, b, last = c
            return count + 1, a + b, x, last * 2

        return lax.while_loop(lambda c: (c[0] < 5) & (c[1] < 2), step, (0, w, w, w))

    assert proven(body, jnp.zeros(N), rows(), equal=0) == (False,) * 4


def test_a_sum_over_devices_that_may_have_left_the_loop_is_nothing():
    def body(w, x):
        return lax.while_loop(lambda c: c < x, lambda c: c + lax.psum(1.0 + c, "i"), w)

    def below(w, x):
        def branch(c):
            return lax.psum(c, "i")

        return lax.pmax(lax.cond(x > 0, branch, lambda c: c, w), "i") + 0 * branch(w)

    assert not proven(body, same(), rows(), equal=0, run=False)
    found = reason(lambda w, x: lax.cond(x > 0, lambda c: lax.psum(c, "i"), lambda c: c, w),
                   same(), rows(), equal=0)  # fmt: skip
    assert "is under a predicate that is not equal on its devices" in str(found)
    assert proven(below, same(), rows(), equal=0, run=False)


# ---- cond


def test_cond():
    def body(w, x):
        by_w = lax.cond(w > 0, lambda a: a * 2, lambda a: a - 1, w)
        mixed = lax.cond(w > 0, lambda a, b: a, lambda a, b: b, w, x)
        by_x = lax.cond(x > 0, lambda a: a * 2, lambda a: a - 1, w)
        return by_w, mixed, by_x

    assert proven(body, same(), rows(), equal=0) == (True, False, False)


def test_an_output_that_every_branch_hands_through():
    def body(w, x):
        return lax.cond(x > 0, lambda a, b: (a, b + 1), lambda a, b: (a, b), w, w)

    assert proven(body, same(), rows(), equal=0) == (True, False)


def test_platform_dependent():
    def body(w, x):
        pick = lambda v: lax.platform_dependent(v, cpu=jnp.sin, default=jnp.cos)
        return pick(w), pick(x)

    assert proven(body, same(), rows(), equal=0) == (True, False)


# ---- calls


@jax.custom_jvp
def doubled(x):
    return 2 * x


doubled.defjvp(lambda primals, tangents: (doubled(*primals), 2 * lax.pmean(tangents[0], "i")))


@jax.custom_vjp
def clipped(x):
    return x * x


clipped.defvjp(lambda x: (x * x, x), lambda x, g: (lax.psum(g * x, "i"),))


@jax.custom_vjp
def indexed(x):
    return x + lax.axis_index("i").astype(x.dtype)


indexed.defvjp(lambda x: (x, None), lambda _, g: (g,))


@custom_vmap
def tripled(x):
    return x * 3


@tripled.def_vmap
def _tripled(size, batched, x):
    return x * 3, True


CALLS = {
    "jit": jax.jit(lambda v: jnp.sin(v)),
    "grad_of_remat": jax.grad(jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))),
    "custom_jvp": doubled,
    "custom_vjp": clipped,
    "relu": jax.nn.relu,
    "vmap": lambda v: jax.vmap(lambda u: u * v)(jnp.arange(3.0)),
    "cg": lambda v: jax.scipy.sparse.linalg.cg(lambda u: 2 * u, v + jnp.ones(3))[0],
    "composite": lax.composite(lambda v: v + 1, "test.add_one"),
    "custom_vmap": tripled,
    "linearize": lambda v: jax.linearize(jnp.sin, v)[1](v),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    call = CALLS[name]
    claims = proven(lambda w, x: (call(w), call(x), call(lax.pmean(x, "i"))),
                    same(), rows(), equal=0)  # fmt: skip
    assert claims == (True, False, True)


def test_derivative_rules_with_collectives_in_them():
    assert proven(jax.grad(clipped), rows())
    assert proven(lambda x: jax.jvp(doubled, (x,), (x,))[1], rows())
    assert not proven(lambda x: clipped(x), rows())


def test_an_axis_index_hidden_in_calls():
    def hidden(w):
        return jax.checkpoint(jax.jit(indexed))(w)

    assert not proven(hidden, same(), equal=0)
    said = reason(hidden, same(), equal=0)
    assert said.equation is not None
    assert said.equation.primitive == "axis_index"
    assert said.equation.source is not None
    assert said.equation.source[2] == "indexed"


def test_a_gradient_of_a_sum_is_a_sum():
    """pmap's semantics: psum transposes to psum."""

    def inside(w, x):
        return jax.grad(lambda w: lax.psum(w * x, "i"))(w)

    def outside(w, x):
        return lax.psum(jax.grad(lambda w: w * x)(w), "i")

    def mean_of_loss(w, x):
        return jax.grad(lambda w: lax.pmean((w * x) ** 2, "i"))(w)

    assert not proven(inside, same(), rows(), equal=0)
    assert proven(outside, same(), rows(), equal=0)
    assert not proven(mean_of_loss, same(), rows(), equal=0)


def test_one_function_called_with_different_knowledge():
    helper = jax.jit(lambda v: v * v + 1)

    def body(w, x):
        return helper(w), helper(x), helper(helper(w)), helper(lax.pmean(helper(x), "i"))

    assert proven(body, same(), rows(), equal=0) == (True, False, True, True)


def test_a_function_given_to_a_reduction():
    def body(w, x):
        odd = lambda a, b: a * b + 1
        return (
            lax.reduce(w, jnp.float32(0), odd, (0,)),
            lax.reduce(x, jnp.float32(0), odd, (0,)),
            lax.reduce_window(w, jnp.float32(1), odd, (2,), (1,), "valid"),
            w.at[jnp.array([0, 1])].add(1.0),
            w.at[jnp.array([0, 0])].mul(x[:2]),
            w.at[jnp.int32(x[0])].get(mode="clip"),
            lax.dynamic_slice(w, (jnp.int32(x[0] * 3),), (2,)),
        )

    claims = proven(body, same(4), rows(4), equal=0)
    assert claims == (True, False, True, True, False, False, False)


def test_a_function_given_to_a_solver_that_talks_to_other_devices():
    def solve(w):
        return jax.scipy.sparse.linalg.cg(lambda u: u + lax.pmean(u, "i"), w)[0]

    said = reason(solve, same(3), equal=0)
    assert "holds a function that does more than compute" in str(said)
