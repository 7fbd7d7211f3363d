"""Functions of jit that call shard_map are sites where the calls of pmaps are on tape."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from shardlift.facts import Recorder
from shardlift.recording.tape.options import TapeOptions
from shardlift.recording.tape.tape import Tape
from tests.recording.test_recorder import N, X, only_site


@pytest.fixture
def recorder():
    recorder = Recorder(tape=Tape(TapeOptions(jit=False)))
    with recorder.observing():
        yield recorder


def step(state, x):
    def body(state, x):
        return state - jax.lax.pmean(jnp.mean(x), "batch"), 2 * x

    whole, rows = PartitionSpec(), PartitionSpec("batch")
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    specs = {"in_specs": (whole, rows), "out_specs": (whole, rows)}
    return jax.shard_map(body, mesh=mesh, check_vma=False, **specs)(state, x)


def test_a_jitted_shard_map_is_a_site(recorder):
    stepped = recorder.jit(jax.jit)(step, donate_argnums=(0,))
    state = np.ones(3, np.float32)
    for _ in range(4):
        state, doubled = stepped(state, X)
    assert np.array_equal(doubled, 2 * X)
    site = only_site(recorder)
    assert (site.kind, site.function, site.calls, site.axis_size) == ("shard_map", "step", 4, N)
    assert [form.path for form in site.forms[0]] == ["state", "x"]
    assert site.times.call.count == 0  # facts are of pmaps


def test_without_a_tape_jit_is_itself():
    assert Recorder().jit(jax.jit) is jax.jit


def test_other_jitted_functions_are_none(recorder):
    double = recorder.jit(jax.jit)(lambda x: 2 * x)
    assert np.array_equal(double(X), 2 * X)
    assert np.array_equal(double(X), 2 * X)
    assert not recorder.capture().sites


def test_jitted_functions_keep_what_they_have(recorder):
    jit = recorder.jit(jax.jit)
    plain = jit(step)
    assert isinstance(plain, jax.stages.Wrapped)
    assert "shard_map" in str(plain.trace(X[0], X).jaxpr)
    state, _ = plain.lower(X[0], X).compile()(X[0], X)
    assert plain.eval_shape(X[0], X)[0].shape == state.shape
    assert plain.__name__ == "step"
    plain.clear_cache()

    class Model:
        @functools.partial(jit, static_argnums=(0, 1))
        def double(self, times, x):
            return times * x

    assert np.array_equal(Model().double(3, X), 3 * X)


def test_an_error_of_the_first_call_is_its_own(recorder):
    scaled = recorder.jit(jax.jit)(lambda x, *, times: times * step(x[0], x)[1])
    with pytest.raises(TypeError, match="times"):
        scaled(X)
    assert np.array_equal(scaled(X, times=3), 6 * X)
    assert only_site(recorder).calls == 1


def test_under_a_transformation_it_is_part_of_that(recorder):
    jit = recorder.jit(jax.jit)
    inner = jit(step)
    outer = jit(lambda state, x: inner(state, x)[0])
    for _ in range(2):
        outer(X[0], X)
    jax.grad(lambda x: inner(X[0], x)[1].sum())(X)
    assert [site.function for site in recorder.capture().sites] == ["<lambda>"]
