"""The private way and the public way say the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardlift import _compat


@pytest.mark.parametrize("make", [_compat._tracing_public, _compat._tracing_private])
def test_tracing(make):
    tracing = make()
    seen = {}

    def look(name, x):
        seen[name] = tracing()
        return (x * 2).sum()

    x = jnp.ones(3)
    look("outside", x)
    jax.jit(lambda x: look("jit", x))(x)
    jax.grad(lambda x: look("grad", x))(x)
    jax.vmap(lambda x: look("vmap", x))(x)
    jax.lax.map(lambda x: look("scan", x), x)
    jax.eval_shape(lambda x: look("eval_shape", x), x)
    inside = {"jit": True, "grad": True, "vmap": True, "scan": True, "eval_shape": True}
    assert seen == {"outside": False, **inside}
    assert tracing() is False


def test_made_while_tracing_it_still_knows_outside():
    made = []
    jax.jit(lambda x: (made.append(_compat._tracing_public()), x)[1])(jnp.ones(3))
    assert made[0]() is False


def test_raise_if_deleted():
    x = jax.device_put(np.ones(3, np.float32))
    _compat.raise_if_deleted({"a": x, "b": 1.0, "c": np.ones(2)})
    x.delete()
    with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[3\]"):
        _compat.raise_if_deleted({"a": x})


def test_jit_disabled():
    assert not _compat.jit_disabled()
    with jax.disable_jit():
        assert _compat.jit_disabled()


@pytest.mark.parametrize("rewrap", [_compat._rewrap_public, _compat._rewrap_private()])
def test_rewrapped_arrays_share_their_buffers(rewrap):
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
    other = jax.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()), ("k",)), jax.P("k"))
    x = jax.device_put(np.arange(8.0, dtype=np.float32), jax.NamedSharding(mesh, jax.P("i")))
    y = rewrap(x, _compat.view_type(x, x.shape), other)
    assert y.sharding == other
    np.testing.assert_array_equal(y, x)
    pointers = [[s.data.unsafe_buffer_pointer() for s in a.addressable_shards] for a in (x, y)]
    assert pointers[0] == pointers[1]


def test_context_changes_with_what_jit_compares():
    private = _compat._context_private()
    outside = private()
    assert private() == outside
    with jax.default_matmul_precision("highest"):
        assert private() != outside
    with jax.debug_nans(True):
        assert private() is None  # then nothing is run past jit
    assert _compat._context_public() is None


def test_runner_gives_what_the_program_gives():
    x, unused = jnp.arange(3.0), jnp.ones(2)
    compiled = jax.jit(lambda x, _: (x + 1, x * 2)).lower(x, unused).compile()
    run = _compat.runner(compiled, 2)
    for got, wanted in zip(run([x, unused]), compiled(x, unused), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_no_runner_for_a_program_with_effects():
    compiled = jax.jit(lambda x: (jax.debug.callback(print, x), x)[1]).lower(jnp.ones(2)).compile()
    assert _compat.runner(compiled, 1) is None
    assert _compat.runner(object(), 1) is None
