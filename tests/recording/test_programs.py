"""Collectives in traced programs, and which of them a gradient goes through."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift
from shardlift import _compat
from shardlift.recording.programs import collectives

W = np.ones((8, 4), np.float32)
grad = jax.grad
total = functools.partial(lax.psum, axis_name="i")


def found(body):
    traced = shardlift.pmap(body, axis_name="i").trace(W, W)
    return collectives(traced.jaxpr.jaxpr)


@jax.custom_vjp
def summed_backwards(w):
    return w


summed_backwards.defvjp(lambda w: (w, None), lambda _, g: (total(g),))


def loop(step):
    return lambda w: lax.scan(lambda c, _: (step(c), None), w, None, 3)[0].sum()


def stopped(w, x):
    return (jnp.sin(w) * lax.stop_gradient(total(jnp.cos(x * w)))).sum()


THROUGH = {
    "the sum of the loss": lambda w, x: grad(lambda w: total((w * x).sum()))(w),
    "its mean": lambda w, x: grad(lambda w: lax.pmean((w * x).sum() ** 2, "i"))(w),
    "a batch norm": lambda w, x: lax.pmean(
        grad(lambda w: ((w * x - lax.pmean(w * x, "i")) ** 2).sum())(w), "i"
    ),
    "checkpoint": lambda w, x: grad(jax.checkpoint(lambda w: jnp.sin(total(w * x)).sum()))(w),
    "scan": lambda w, x: grad(loop(lambda c: jnp.sin(total(c * x))))(w),
    "jit": lambda w, x: grad(jax.jit(lambda w: jnp.sin(total(w * x)).sum()))(w),
    "vmap": lambda w, x: jax.vmap(grad(lambda a, b: total(a * b)))(w, x),
    "custom rule": lambda w, x: grad(lambda w: (summed_backwards(w) * x).sum())(w),
    "gather": lambda w, x: grad(lambda w: (lax.all_gather(w * x, "i") ** 2).sum())(w),
}
BESIDE = {
    "the mean of the gradient": lambda w, x: lax.pmean(grad(lambda w: (w * x).sum())(w), "i"),
    "no gradient": lambda w, x: total(w * x),
    "forward mode": lambda w, x: jax.jvp(lambda w: total(w * x), (w,), (w,))[1],
    "stop_gradient": lambda w, x: grad(stopped)(w, x),
    "stop_gradient in checkpoint": lambda w, x: grad(jax.checkpoint(stopped))(w, x),
    "stop_gradient in jit": lambda w, x: grad(jax.jit(stopped))(w, x),
    "a function named transpose": lambda w, x: jax.jit(transpose)(w),
}


def transpose(w):
    return total(w)


@pytest.mark.parametrize("name", THROUGH)
def test_a_gradient_goes_through(name):
    assert any(one.gradient for one in found(THROUGH[name]))


@pytest.mark.parametrize("name", BESIDE)
def test_no_gradient_goes_through(name):
    assert not any(one.gradient for one in found(BESIDE[name]))
    assert found(BESIDE[name])


def test_collectives_in_loops_and_branches_are_found():
    bodies = [
        lambda w, x: lax.while_loop(lambda c: c.sum() < 9, total, w),
        lambda w, x: lax.cond(w.sum() > 0, total, lambda w: lax.pmax(w, "i"), w),
        lambda w, x: (w + x, lax.axis_index("i")),
    ]
    kinds = [[one.kind for one in found(body)] for body in bodies]
    assert kinds == [["psum"], ["pmax", "psum"], []]


def test_equations_that_do_not_say_where_they_come_from():
    assert _compat.lines_of(object()) == []
    assert _compat.transforms_of(object()) == ""
