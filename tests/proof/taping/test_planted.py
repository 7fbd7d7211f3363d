"""Mistakes that are made when pmap is moved by hand, planted one by one: each is found, and named.

Beside each stands the same function moved rightly, of which nothing is said.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.proof.recording import batch, compared, mesh, one

N = 8
rng = np.random.default_rng(3)
X, Y, W = batch(rng, N, 2, 3), batch(rng, N, 2, 3), batch(rng, 3)
ROWS = P("i")


def pmapped(fun, *args, **options):
    """The program before."""
    return lambda: jax.pmap(fun, axis_name="i", **options)(*args)


def mapped(fun, *args, in_specs=ROWS, out_specs=ROWS, check_vma=False):
    """A program after."""

    def program():
        moved = jax.shard_map(
            fun, mesh=mesh("i"), in_specs=in_specs, out_specs=out_specs, check_vma=check_vma
        )
        return jax.jit(moved)(*args)

    return program


def on_row(fun):
    """For blocks with a device axis of 1."""
    return lambda *block: jax.tree.map(lambda x: x[None], fun(*[x[0] for x in block]))


def verdict(old, right, wrong):
    """Of the wrong one; the right one is identical."""
    assert one(compared(old, right)).verdict == "identical"
    found = one(compared(old, wrong))
    assert found.verdict == "different"
    return " ".join(found.causes) + " ".join(finding.what for finding in found.findings)


def test_a_gradient_n_times_too_small():
    def grads_of(w, x):
        grads = jax.grad(lambda w: lax.pmean(jnp.sum(x * w), "i"))(w)
        return lax.pmean(grads, "i")

    stacked = np.stack([W] * N)
    right = mapped(on_row(grads_of), stacked, X)
    wrong = mapped(on_row(grads_of), stacked, X, check_vma=True)
    assert "8.000 times too small" in verdict(pmapped(grads_of, stacked, X), right, wrong)


def test_a_gradient_n_times_too_large():
    def grads_of(w, x):
        return lax.pmean(jax.grad(lambda w: jnp.sum(x * w))(w), "i")

    specs = {"in_specs": (P(), ROWS), "out_specs": P()}
    flat = X.reshape(-1, 3)
    right, wrong = (mapped(grads_of, W, flat, check_vma=check, **specs) for check in (False, True))
    said = verdict(pmapped(grads_of, np.stack([W] * N), X), right, wrong)
    assert "8.000 times too large: check_vma with unvarying parameters" in said


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        (lambda x: x * 2, "a pmean or psum is missing"),
        (lambda x: lax.psum(x * 2, "i"), "8.000 times too large"),
        (lambda x: lax.pmean(lax.pmean(x, "i") / 4, "i"), "8.000 times too small"),
    ],
    ids=["missing", "psum for pmean", "divided again"],
)
def test_another_reduction(wrong, cause):
    right = lambda x: lax.pmean(x * 2, "i")
    old = pmapped(right, X)
    assert cause in verdict(old, mapped(on_row(right), X), mapped(on_row(wrong), X))


def test_one_key_for_all_devices():
    keys = jax.random.split(jax.random.PRNGKey(0), N)

    def noise(key):
        return jax.random.uniform(key, (4,))

    wrong = mapped(lambda key: noise(key[0])[None], keys, in_specs=P())
    said = verdict(pmapped(noise, keys), mapped(on_row(noise), keys), wrong)
    assert "the first device's value stands for all" in said or "one random key for all" in said
    other = mapped(lambda key: noise(key[1])[None], keys, in_specs=P())
    assert "one random key for all" in verdict(
        pmapped(noise, keys), mapped(on_row(noise), keys), other
    )


def test_statistics_of_the_whole_batch():
    def normalized(x):
        return (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1)

    old = pmapped(normalized, X)
    whole = lambda: jax.jit(normalized)(X.reshape(-1, 3))
    said = verdict(old, mapped(on_row(normalized), X), whole)
    assert "elements differ" in said


def test_arguments_of_equal_shape_in_the_wrong_order():
    def f(x, y):
        return x - 2 * y

    said = verdict(pmapped(f, X, Y), mapped(on_row(f), X, Y), mapped(on_row(f), Y, X))
    assert "elements differ" in said


def test_specs_of_two_arguments_swapped():
    square = batch(rng, N, N)

    def f(x, y):
        return x * lax.axis_index("i").astype(x.dtype) + y

    def program(first, second):
        body = lambda x, y: f(x.reshape(-1), y.reshape(-1))[None]
        return mapped(body, square, square, in_specs=(first, second))

    right, wrong = program(ROWS, P(None, "i")), program(P(None, "i"), ROWS)
    assert "elements differ" in verdict(pmapped(f, square, square, in_axes=(0, 1)), right, wrong)


def test_static_arguments_counted_wrongly():
    def f(x, power, scale):
        return x**power * scale

    old = pmapped(f, X, 2, 3, static_broadcasted_argnums=(1, 2), in_axes=(0, None, None))
    right = mapped(on_row(functools.partial(f, power=2, scale=3)), X)
    wrong = mapped(on_row(functools.partial(f, power=3, scale=2)), X)
    assert "elements differ" in verdict(old, right, wrong)


def test_a_donated_buffer_that_is_read_again():
    def program(again):
        step = jax.jit(lambda x: x + 1, donate_argnums=0)
        if again == "pmap":
            step = jax.pmap(lambda x: x + 1, donate_argnums=0)
        x = jax.device_put(X, jax.sharding.NamedSharding(mesh("i"), ROWS))
        y = step(x)
        try:
            step(x if again is True else y)
        except RuntimeError:  # Array has been deleted
            raise ArithmeticError from None

    old = lambda: program("pmap")
    assert one(compared(old, lambda: program(False))).verdict == "identical"
    found = one(compared(old, lambda: program(True)))
    assert found.verdict == "different"
    assert found.first.what == "the call raised an error after"


def test_the_first_row_of_something_that_is_not_replicated():
    f = lambda x: x.sum()
    wrong = mapped(lambda x: f(x[0]), X, out_specs=P())
    said = verdict(pmapped(f, X), mapped(on_row(f), X), wrong)
    assert "out_specs=P() or out_axes=None of a value that varies" in said
