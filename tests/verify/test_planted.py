"""Mistakes that are made when pmap is moved by hand, planted one by one: each is found, and named.

Beside each stands the same function moved rightly, of which nothing is said.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.verify.recording import batch, compared, mesh, one

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")

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


def mean(x):
    return lax.pmean(x * 2, "i")


def total(x):
    return lax.psum(x * 2, "i")


@pytest.mark.parametrize(
    ("right", "wrong", "cause"),
    [
        (mean, lambda x: x * 2, "a pmean or psum is missing"),
        (mean, total, "8.000 times too large: psum instead of pmean"),
        (mean, lambda x: lax.pmean(lax.pmean(x, "i") / 4, "i"), "8.000 times too small"),
        (total, mean, "8.000 times too small: pmean instead of psum"),
    ],
    ids=["missing", "psum for pmean", "divided again", "pmean for psum"],
)
def test_another_reduction(right, wrong, cause):
    old = pmapped(right, X)
    assert cause in verdict(old, mapped(on_row(right), X), mapped(on_row(wrong), X))


@pytest.mark.slow
def test_a_missing_mean_is_named_by_its_line():
    def step(w, x):
        grads = jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)
        grads = lax.pmean(grads, "i")
        return w - 0.1 * grads

    def forgotten(w, x):
        grads = jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)
        return w - 0.1 * grads

    stacked = np.stack([W] * N)
    right, wrong = (mapped(on_row(f), stacked, X) for f in (step, forgotten))
    said = verdict(pmapped(step, stacked, X), right, wrong)
    assert "the devices disagree where they agreed before: a pmean or psum is missing" in said
    assert 'psum only before: grads = lax.pmean(grads, "i")' in said


@pytest.mark.slow
def test_one_key_for_all_devices_in_a_train_step():
    """The gradients are averaged: every device has the same wrong numbers, as it had right ones."""
    keys = jax.random.split(jax.random.key(0), N)

    def step(w, x, key):
        kept = jax.random.bernoulli(key, 0.5, x.shape)
        grads = jax.grad(lambda w: jnp.sum((jnp.where(kept, x, 0) @ w) ** 2))(w)
        return w - 0.1 * lax.pmean(grads, "i")

    def program(spec):
        body = lambda w, x, key: step(w, x[0], key[0])
        specs = (P(), ROWS, spec)
        return mapped(body, W, X, keys, in_specs=specs, out_specs=P())

    old = pmapped(step, W, X, keys, in_axes=(None, 0, 0))
    said = verdict(old, program(ROWS), program(P()))
    assert "one random key for all devices, where each had its own (kept = jax.random" in said


BATCH = batch(rng, N, 6, 3)


def normalized(x):
    return (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1)


@pytest.mark.slow
def test_statistics_of_the_whole_batch():
    old = pmapped(normalized, BATCH)
    whole = lambda: jax.jit(normalized)(BATCH.reshape(-1, 3))
    said = verdict(old, mapped(on_row(normalized), BATCH), whole)
    assert "after, it is a jit of the whole batch and no shard_map" in said
    assert "a mean or variance (batch statistics) of the whole batch" in said


@pytest.mark.slow
def test_statistics_over_all_devices():
    def together(x):
        mean = lax.pmean(x.mean(0), "i")
        return (x - mean) / jnp.sqrt(lax.pmean(((x - mean) ** 2).mean(0), "i") + 1)

    right, wrong = (mapped(on_row(f), BATCH) for f in (normalized, together))
    said = verdict(pmapped(normalized, BATCH), right, wrong)
    assert "a mean or variance (batch statistics) of the whole batch" in said
    assert 'psum only after: mean = lax.pmean(x.mean(0), "i")' in said


@pytest.mark.slow
def test_statistics_that_are_kept():
    f = lambda x: x.mean(0)
    wrong = mapped(lambda x: lax.pmean(f(x[0]), "i")[None], BATCH)
    said = verdict(pmapped(f, BATCH), mapped(on_row(f), BATCH), wrong)
    assert "the mean over the devices, where each device had its own value" in said


def test_arguments_of_equal_shape_in_the_wrong_order():
    def f(x, y):
        return x - 2 * y

    old, right = pmapped(f, X, Y), mapped(on_row(f), X, Y)
    assert "x and y have each other's values" in verdict(old, right, mapped(on_row(f), Y, X))
    # Inside the function nothing tells that they are exchanged: it is only seen to differ.
    verdict(old, right, mapped(lambda x, y: f(y[0], x[0])[None], X, Y))


def test_a_state_of_equal_shapes_that_is_donated():
    def f(state, x):
        return {name: leaf + k * x for k, (name, leaf) in enumerate(state.items(), 1)}

    def state():
        rows = jax.sharding.NamedSharding(mesh("i"), ROWS)  # or they are copied, not donated
        each = {name: np.full((N, 4), k, np.float32) for k, name in enumerate("mvw")}
        return jax.device_put(each, rows)

    def after(fun):
        moved = jax.shard_map(fun, mesh=mesh("i"), in_specs=ROWS, out_specs=ROWS, check_vma=False)
        return lambda: jax.jit(moved, donate_argnums=(0,))(state(), jnp.ones((N, 4)))

    def old():
        return jax.pmap(f, axis_name="i", donate_argnums=(0,))(state(), jnp.ones((N, 4)))

    twice = lambda state, x: f(state, 2 * x)
    verdict(old, after(f), after(twice))  # identical, different: and nothing crashes


def test_static_arguments_counted_wrongly():
    def f(x, power, scale):
        return x**power * scale

    def program(order):
        def step(x, *static):
            body = lambda x: f(x[0], *(static[k] for k in order))[None]
            return jax.shard_map(body, mesh=mesh("i"), in_specs=ROWS, out_specs=ROWS)(x)

        return lambda: jax.jit(step, static_argnums=(1, 2))(X, 2, 3)

    old = pmapped(f, X, 2, 3, static_broadcasted_argnums=(1, 2), in_axes=(0, None, None))
    verdict(old, program((0, 1)), program((1, 0)))  # seen, not named


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
    assert found.first.what.startswith("the call raised an error after: ")
    assert "an array is used after it was donated to an earlier call" in found.causes[0]


def test_the_first_row_of_something_that_is_not_replicated():
    f = lambda x: x.sum()
    wrong = mapped(lambda x: f(x[0]), X, out_specs=P())
    said = verdict(pmapped(f, X), mapped(on_row(f), X), wrong)
    assert "out_specs=P() or out_axes=None for a value that varies" in said


@pytest.mark.slow
def test_the_first_row_read_between_two_functions():
    """The second function gets one value for all devices; it is not wrong itself."""

    def loss_of(x):
        return x.sum()

    def weigh(x, loss):
        return x * loss

    def program(read):
        losses = jax.pmap(loss_of)(X)
        return jax.pmap(weigh)(X, read(losses))

    old = lambda: program(lambda losses: losses)
    sites = compared(old, lambda: program(lambda losses: np.stack([np.asarray(losses)[0]] * N)))
    assert [site.verdict for site in sites] == ["identical", "different"]
    assert sites[1].causes[-1].startswith("its inputs differ: loss, in call 1: all devices have ")
    assert sites[1].itself is False
    assert [site.verdict for site in compared(old, old)] == ["identical", "identical"]
