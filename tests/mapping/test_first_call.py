"""A training step is compiled once, wherever its first state came from."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import shardlift
from shardlift import arrays

N = 8
STATE = {"w": np.ones(4, np.float32), "b": np.zeros(3, np.float32), "step": np.zeros((), int)}


def stacked(module):
    return lambda: jax.tree.map(lambda leaf: module.stack([leaf] * N), STATE)


@pytest.fixture
def compiled():
    """The sites of these tests that were compiled meanwhile, by name."""
    names: list[str] = []

    def hear(event, seconds, **details):
        name = re.sub(r"jit\((.*)\)", r"\1", str(details.get("fun_name", "")))
        if event.endswith("backend_compile_duration") and name in ("step", "double", "update"):
            names.append(name)

    jax.monitoring.register_event_duration_secs_listener(hear)
    yield names
    jax.monitoring.unregister_event_duration_listener(hear)


SOURCES = {
    "numpy": stacked(np),
    "one device": stacked(jnp),
    "device_put_replicated": lambda: arrays.device_put_replicated(STATE, jax.local_devices()),
    "replicate": lambda: arrays.replicate(STATE),
}


def make_step():
    def step(state, batch):
        mean = jax.lax.pmean(jnp.mean(batch), "i")
        new = {"w": state["w"] - mean, "b": state["b"] + mean, "step": state["step"] + 1}
        return new, jnp.sum(new["w"])

    return step


@pytest.mark.parametrize("donate", [(), (0,)])
@pytest.mark.parametrize("source", SOURCES)
def test_a_state_that_comes_back_needs_one_program(source, donate, compiled):
    batch = np.arange(2 * N, dtype=np.float32).reshape(N, 2)
    step = shardlift.pmap(make_step(), axis_name="i", donate_argnums=donate)
    state = SOURCES[source]()
    for _ in range(3):
        state, loss = step(state, batch)
    assert len(compiled) == 1
    np.testing.assert_array_equal(state["w"], np.full((N, 4), 1 - 3 * 7.5, np.float32))
    np.testing.assert_array_equal(state["step"], np.full(N, 3))
    assert loss.shape == (N,)


def test_a_state_in_several_arguments_and_a_single_donated_one(compiled):
    def step(params, moments, scale, batch):
        return params, (moments, scale * jnp.sum(batch))

    stepped = shardlift.pmap(step, donate_argnums=(2,))
    params, moments, scale = stacked(np)(), stacked(jnp)(), np.ones(N, np.float32)
    for _ in range(3):
        params, (moments, scale) = stepped(params, moments, scale, np.ones((N, 2), np.float32))
    assert len(compiled) == 1


def test_an_argument_that_is_new_at_every_call_is_left_alone(compiled):
    traces: list[int] = []

    def double(x):
        traces.append(1)
        return 2 * x

    doubled = shardlift.pmap(double)
    for _ in range(3):
        doubled(np.ones((N, 2), np.float32))
    assert len(compiled) == 1
    assert len(traces) == 1


def test_only_as_many_arguments_as_outputs_of_their_form(compiled):
    def update(params, gradients):
        return jax.tree.map(lambda p, g: p - g, params, gradients)

    updated = shardlift.pmap(update)
    params = stacked(np)()
    for _ in range(3):  # gradients come from NumPy each time
        params = updated(params, stacked(np)())
    assert len(compiled) == 1


def test_a_batch_that_looks_like_an_output_beside_the_state_is_left_alone(compiled):
    def step(state, x):
        return jax.tree.map(lambda leaf: leaf + 1, state), 2 * x

    stepped = shardlift.pmap(step)
    state = stacked(np)()
    for _ in range(3):
        state, _ = stepped(state, np.ones((N, 2), np.float32))
    assert len(compiled) == 1


def test_numpy_that_is_laid_out_and_donated_is_not_written_to():
    big = {"a": np.zeros((N, 1 << 16), np.float32), "b": np.zeros((N, 1 << 16), np.float32)}
    out = shardlift.pmap(lambda x: jax.tree.map(lambda y: y + 1, x), donate_argnums=0)(big)
    jax.block_until_ready(out)
    assert not big["a"].any()


def on_mesh(shape: tuple[int, ...], *names: str) -> jax.Array:
    mesh = Mesh(np.array(jax.devices()).reshape(shape), names)
    return jax.device_put(ROWS, NamedSharding(mesh, PartitionSpec(names)))


ROWS = np.arange(3.0 * N, dtype=np.float32).reshape(N, 3)
# The same bytes on the same devices in the same order.
NAMES = {
    "a nameless pmap": lambda: shardlift.pmap(lambda x: x)(ROWS),
    "another pmap": lambda: shardlift.pmap(lambda x: x, axis_name="q")(ROWS),
    "device_put_sharded": lambda: arrays.device_put_sharded(list(ROWS), jax.devices()),
    "another mesh": lambda: on_mesh((N,), "z"),
    "a mesh with two axes": lambda: on_mesh((2, N // 2), "a", "b"),
}


@pytest.mark.parametrize("first", NAMES)
@pytest.mark.parametrize("by_name", [False, True])
def test_the_name_of_the_devices_compiles_nothing(compiled, first: str, by_name: bool):
    def double(x):
        return x + jax.lax.psum(x, "p") * 0 + x

    mapped = shardlift.pmap(double, axis_name="p")
    call = (lambda x: mapped(x=x)) if by_name else mapped
    for name in [first, *NAMES] * 2:
        x = NAMES[name]()
        out = call(x)
        np.testing.assert_array_equal(out, 2 * ROWS)
        np.testing.assert_array_equal(x, ROWS)  # it is still there
        call(out)
    assert compiled == ["double"]


def test_a_donated_array_under_another_name_is_gone(compiled):
    def update(x):
        return x + 1

    mapped = shardlift.pmap(update, axis_name="p", donate_argnums=0)
    for _ in range(4):
        x = NAMES["another mesh"]()
        y = mapped(x)
        assert x.is_deleted()
        mapped(y)
        assert y.is_deleted()
    assert compiled == ["update"]
