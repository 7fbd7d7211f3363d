"""What is recorded of functions that are no pmaps any more."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift.capture.schema import HOST
from shardlift.facts import Recorder
from tests.recording.test_recorder import by_path, only_site, recorder

__all__ = ["recorder"]
N = 8
X = np.arange(N * 4, dtype=np.float32).reshape(N, 4)


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()), ("batch",))


def step(state, x):
    spec = PartitionSpec("batch")

    def body(state, x):
        return state - jax.lax.pmean(jnp.mean(x), "batch"), 2 * x

    return jax.shard_map(
        body,
        mesh=mesh(),
        in_specs=(PartitionSpec(), spec),
        out_specs=(PartitionSpec(), spec),
        check_vma=False,
    )(state, x)


def test_a_jitted_shard_map_is_a_site(recorder):
    stepped = recorder.jit(jax.jit)(step, donate_argnums=(0,))
    everywhere = NamedSharding(mesh(), PartitionSpec())
    state = jax.device_put(np.ones(3, np.float32), everywhere)
    for _ in range(4):
        state, doubled = stepped(state, X)
    assert np.array_equal(doubled, 2 * X)
    site = only_site(recorder)
    assert (site.kind, site.function, site.calls, site.compile_count) == ("shard_map", "step", 4, 1)
    assert site.mesh == {"batch": N}
    arguments, outputs = by_path(site.arguments), by_path(site.outputs)
    assert (arguments["state"].spec, arguments["state"].donated) == ("P()", True)
    assert (arguments["x"].spec, arguments["x"].placement) == ("P('batch')", HOST)
    assert outputs["output[0]"].equal is True
    assert {move.path for move in site.moves} == {"x"}
    assert [one.kind for one in site.collectives] == ["psum"]


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


def test_static_arguments_names_and_errors(recorder):
    @functools.partial(recorder.jit(jax.jit), static_argnames="times")
    def scaled(x, *, times):
        spec = PartitionSpec("batch")
        mapped = jax.shard_map(lambda x: times * x, mesh=mesh(), in_specs=spec, out_specs=spec)
        return mapped(x)

    with pytest.raises(TypeError, match="times"):
        scaled(X)
    assert np.array_equal(scaled(X, times=3), 3 * X)
    assert np.array_equal(scaled(X, times=4), 4 * X)
    site = only_site(recorder)
    assert site.compile_count == 2
    assert [leaf.path for leaf in site.arguments] == ["x"]


def test_under_a_transformation_it_is_part_of_that(recorder):
    jit = recorder.jit(jax.jit)
    inner = jit(step)
    outer = jit(lambda state, x: inner(state, x)[0])
    for _ in range(2):
        outer(X[0], X)
    assert [site.function for site in recorder.capture().sites] == ["<lambda>"]
    jax.grad(lambda x: inner(X[0], x)[1].sum())(X)
    assert Recorder().capture().sites == ()
