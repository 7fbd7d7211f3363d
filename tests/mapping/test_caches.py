"""What is kept, what is freed, and who may call at the same time."""

import dataclasses
import gc
import threading
import weakref

import jax
import jax.extend.backend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift
from shardlift.mapping import registry, site
from tests import children

N = 8
X = np.arange(N, dtype=np.float32)


def test_equal_pmaps_of_one_function_share_their_programs():
    traced = []

    def f(x):
        traced.append(1)
        return x + 1

    for _ in range(3):
        shardlift.pmap(f, "i", in_axes=(0,), donate_argnums=())(X)
    assert len(traced) == 1
    shardlift.pmap(f, "j")(X)
    assert len(traced) == 2


@pytest.mark.parametrize("calls", [0, 3])
def test_a_deleted_function_is_freed_with_what_it_closed_over(calls):
    def make():
        big = jnp.ones((64, 64))
        return lambda x: x + big[0, 0], weakref.ref(big)

    f, data = make()
    dead = weakref.ref(f)
    g = shardlift.pmap(f)
    for _ in range(calls):
        g(X)
        g(x=X)
    del f, g
    gc.collect()
    assert dead() is None
    assert data() is None


def test_equal_functions_do_not_share():
    @dataclasses.dataclass(frozen=True)
    class Scale:
        by: float

        def __call__(self, x):
            return x * self.by

        def method(self, x):
            return x + self.by

    for make in (lambda s: s, lambda s: s.method):
        first, second = Scale(2.0), Scale(2.0)
        one, two = shardlift.pmap(make(first)), shardlift.pmap(make(second))
        one(X)
        del first, one
        gc.collect()
        assert two(X[:4]).shape == (4,)


def test_a_method_is_traced_anew_each_time_it_is_mapped():
    """As in JAX 0.7.2; jax.pmap of 0.12 goes on with the first rate."""

    class Trainer:
        def __init__(self):
            self.rate, self.w = 0.5, jnp.ones(N)
            self.p_step = shardlift.pmap(self.step)

        def step(self, w):
            return w - self.rate * w

    trainer = Trainer()
    for epoch in range(6):
        trainer.w = trainer.p_step(trainer.w)
        if epoch % 2:
            trainer.rate *= 0.1
            trainer.p_step = shardlift.pmap(trainer.step)
    rows = np.full(N, 0.5**2 * 0.95**2 * 0.995**2, np.float32)
    np.testing.assert_allclose(trainer.w, rows, rtol=1e-6)
    dead = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert dead() is None


def test_arguments_are_freed_without_the_garbage_collector():
    f = shardlift.pmap(lambda x: x + 1, reshard="silent")
    gc.collect()
    gc.disable()
    try:
        for place in (jnp.array, lambda x: jax.device_put(x, jax.devices()[3])):
            x = place(X)
            alive = weakref.ref(x)
            jax.block_until_ready(f(x))
            del x
            assert alive() is None
    finally:
        gc.enable()


def test_clear_caches_and_clear_cache():
    traced = []

    def f(x):
        traced.append(1)
        return x + 1

    g = shardlift.pmap(f)
    np.testing.assert_array_equal(g(X), X + 1)
    jax.clear_caches()
    np.testing.assert_array_equal(g(X), X + 1)
    g.clear_cache()
    np.testing.assert_array_equal(g(X), X + 1)
    assert len(traced) == 3


def test_a_function_is_hot_again_after_calls_of_one_size():
    f = shardlift.pmap(lambda x: x + 1)
    known = registry.site_behind(f)
    seen = []
    for n in (8, 8, 4, 8, 8, 8, 8):
        np.testing.assert_array_equal(f(np.ones(n)), np.full(n, 2))
        seen.append(known.hot is not site._no_program)
    assert seen == [True, True, False, False, False, False, True]


def test_many_sizes_do_not_grow_without_bound(monkeypatch):
    monkeypatch.setattr(site, "MAX_PLANS", 3)
    f = shardlift.pmap(lambda x: lax.psum(x, "i"), "i")
    for n in [1, 2, 3, 4, 5, 6, 7, 8, 1, 8]:
        np.testing.assert_array_equal(f(np.ones(n, np.float32)), np.full(n, n))


@pytest.mark.slow
def test_clear_backends():
    """In a process of its own: it takes every array of the session with it."""
    import sys

    code = """
import jax, numpy as np, shardlift
from jax.extend.backend import clear_backends
f = shardlift.pmap(lambda x: jax.lax.psum(x, "i"), "i")
for _ in range(3):
    y = f(f(np.ones(8, np.float32)))
    assert y.tolist() == [64.0] * 8
    assert f(x=np.ones(8, np.float32)).sharding.device_set == set(jax.devices())
    assert y.sharding.device_set == set(jax.devices())
    del y
    clear_backends()
"""
    done = children.run([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr


def test_threads_may_call_one_function_at_once():
    f = shardlift.pmap(lambda x: lax.psum(x, "i") + x.shape[0], "i")
    failures: list[BaseException] = []
    barrier = threading.Barrier(8)

    def work(k):
        try:
            barrier.wait()
            for n in range(6):
                size, length = 1 + (k + n) % 8, 1 + n % 3
                got = f(np.ones((size, length), np.float32))
                np.testing.assert_array_equal(got, np.full((size, length), size + length))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_body_in_one_thread_does_not_nest_a_call_in_another():
    inside, done = threading.Event(), threading.Event()
    results = []

    def other():
        inside.wait()
        results.append(np.asarray(shardlift.pmap(lambda x: x * 2)(X)))
        done.set()

    def body(x):
        inside.set()
        done.wait(60)
        return x

    thread = threading.Thread(target=other)
    thread.start()
    shardlift.pmap(body)(X[:2])
    thread.join()
    np.testing.assert_array_equal(results[0], X * 2)


def test_shapes_of_nested_pmaps_do_not_grow_without_bound(monkeypatch):
    monkeypatch.setattr(site, "MAX_SIGNATURES", 3)
    f = shardlift.pmap(
        lambda x: shardlift.pmap(lambda y: y + lax.psum(y, "j"), "j")(x), "i", devices=jax.devices()
    )
    known = registry.site_behind(f)._inner
    for _ in range(2):
        for length in range(1, 7):
            x = np.ones((2, 4, length), np.float32)
            np.testing.assert_array_equal(f(x), np.full_like(x, 5))
            assert 1 <= len(known) <= 3
