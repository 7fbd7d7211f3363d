"""Libraries that hold pmap, or know its outputs; `examples/` has programs with more of them.

Each test is skipped where its library is not installed.
"""

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardlift

N = jax.local_device_count()
pytestmark = [
    pytest.mark.libraries,
    pytest.mark.filterwarnings("default"),  # of the libraries
]


@pytest.fixture(autouse=True)
def inside():
    # Strict promotion, as this suite has it, is not what these libraries were written for.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        with shardlift.legacy() as uses:
            yield uses


def test_nnx_takes_part(inside):
    nnx = pytest.importorskip("flax.nnx")
    linear = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    axes = nnx.StateAxes({...: None})

    @nnx.pmap(in_axes=(axes, 0), out_axes=0, axis_name="d")
    def forward(model, x):
        return jax.lax.psum(model(x), "d")

    out = forward(linear, jnp.ones((N, 2, 3)))
    np.testing.assert_allclose(out[0], N * linear(jnp.ones((2, 3))), rtol=1e-5)
    assert inside["jax.pmap"] == 1


def test_chex_knows_a_pmapped_function_and_its_output():
    chex = pytest.importorskip("chex")
    out = jax.pmap(lambda x: x + 1)(jnp.ones((N, 2)))
    chex.assert_tree_is_sharded(out, devices=jax.local_devices())
    chex.assert_tree_is_on_device(out[N - 1], device=jax.local_devices()[N - 1])
    with pytest.raises(ValueError, match="must not wrap"):
        chex.assert_max_traces(jax.pmap(lambda x: x), n=1)
    with chex.fake_pmap():
        assert jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")(jnp.ones((N + 3, 2)))[0, 0] == N + 3


def test_flax_of_2022_asks_for_levels_of_traces(monkeypatch):
    """A stand-in: that flax asks ``trace.level``, and the backend for the order of its devices."""

    def fail(*_):
        raise AttributeError

    tracers, utils = types.ModuleType("flax.core.tracers"), types.ModuleType("flax.jax_utils")
    tracers.trace_level = tracers.check_trace_level = fail
    utils._pmap_device_order = fail
    for module in (tracers, utils):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with _afresh():
        tracers.check_trace_level(tracers.trace_level(object()))
        assert utils._pmap_device_order() == jax.local_devices()
    assert tracers.trace_level is tracers.check_trace_level is utils._pmap_device_order is fail


class _afresh:  # noqa: N801
    """``legacy()`` put in anew, although a test is inside one."""

    def __enter__(self):
        from shardlift._legacy import indexing
        from shardlift._legacy.patches import Patches

        self.patches = Patches()
        indexing.restore_library_reads(self.patches, None, patch=True)

    def __exit__(self, *_):
        self.patches.undo()
