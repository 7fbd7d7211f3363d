"""The pmap of a legacy program: arguments, type, resharding; options; helpers of libraries."""

import inspect
import sys
import traceback
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardlift
from shardlift._legacy import names, options
from shardlift._legacy.patches import Patches, Uses

DEVICES = jax.devices()
ROWS = np.arange(24, dtype=np.float32).reshape(8, 3)


@pytest.fixture
def inside():
    with shardlift.legacy() as uses:
        yield uses


def test_arguments_by_position(inside):
    f = jax.pmap(lambda x, k: x * k, "i", (0, None), 1, (1,), DEVICES[:4], None, 4, ())
    np.testing.assert_array_equal(f(ROWS[:4], 2), (ROWS[:4] * 2).T)


def test_inputs_are_moved_without_a_word(inside):
    there = jax.device_put(ROWS, DEVICES[5])
    few = jax.pmap(lambda x: x, devices=DEVICES[4:])(ROWS[:4])
    np.testing.assert_array_equal(jax.pmap(lambda x: x + 1)(there), ROWS + 1)
    np.testing.assert_array_equal(jax.pmap(lambda x: x + 1)(few), ROWS[:4] + 1)


def test_the_type_is_the_one_that_libraries_look_for(inside):
    def double(x):
        """Twice."""
        return x * 2

    f = jax.pmap(double)
    assert "PmapFunction" in str(type(f))
    assert (f.__name__, f.__doc__, f.__wrapped__) == ("double", "Twice.", double)
    assert str(inspect.signature(f)) == "(x)"
    assert f.lower(ROWS).compile()(ROWS).shape == (8, 3)
    assert f.eval_shape(ROWS).shape == (8, 3)
    f.clear_cache()
    with pytest.raises(AttributeError, match="no_such"):
        f.no_such  # noqa: B018


def test_methods(inside):
    class Model:
        scale = 3

        @jax.pmap
        def fixed(x):  # noqa: N805
            return x + 1

        def __call__(self, x):
            return jax.pmap(self.forward)(x)

        def forward(self, x):
            return x * self.scale

    np.testing.assert_array_equal(Model()(ROWS), ROWS * 3)
    np.testing.assert_array_equal(Model.fixed(ROWS), ROWS + 1)


def test_no_frame_of_ours_in_the_middle_of_a_traceback(inside):
    def body(x):
        raise KeyError("lost")

    try:
        jax.pmap(body)(ROWS)
    except KeyError:
        shown = traceback.format_exc()
    files = [line for line in shown.splitlines() if "shardlift" in line and "tests" not in line]
    assert len([line for line in files if line.strip().startswith("File")]) <= 1, shown


def test_options(inside):
    for name, value in names.OPTIONS.items():
        assert getattr(jax.config, name) == value
        jax.config.update(name, not value)
        assert getattr(jax.config, name) == (not value)
    assert inside["jax.config.jax_pmap_shmap_merge"] > 0
    with pytest.raises(AttributeError, match="Unrecognized config option"):
        jax.config.update("jax_no_such_option", 1)


def test_options_from_the_environment():
    uses, patches = Uses(), Patches()
    try:
        options.restore(patches, uses, {"JAX_PMAP_SHMAP_MERGE": "0", "JAX_ARRAY": "true"})
        assert jax.config.jax_pmap_shmap_merge is False
    finally:
        patches.undo()
    assert uses["JAX_PMAP_SHMAP_MERGE (environment)"] == 1


class Told:
    """A recorder that keeps what it is told."""

    def __init__(self):
        self.reads, self.names, self.sites = [], [], []

    def jit(self, jit):
        return jit

    def pmap(self, pmap):
        def recorded(fun, axis_name=None, **options):
            self.sites.append(fun.__name__)
            return pmap(fun, axis_name, **options)

        return recorded

    def read(self, array, how, nbytes):
        self.reads.append((how, nbytes))

    def used(self, name):
        self.names.append(name)

    def is_apart(self):
        return False


@pytest.mark.parametrize("patch", [True, False])
def test_a_recorder_is_told(patch):
    told = Told()

    def body(x):
        return x + 1

    library = types.ModuleType("flax.jax_utils")
    library.unreplicate = lambda tree: jax.tree.map(
        lambda x: np.asarray(x)[0] if np.ndim(x) else x, tree
    )
    sys.modules["flax.jax_utils"] = library
    stock = library.unreplicate
    try:
        with shardlift.legacy(patch=patch, recorder=told):
            y = jax.pmap(body)(ROWS)
            y[0], y[-1], y[0:1], jnp.ones(3)[0]
            first = library.unreplicate({"a": y, "b": jnp.float32(2)})
            np.testing.assert_array_equal(first["a"], ROWS[0] + 1)
            assert first["b"] == 2
            jax.device_get([y, jnp.ones(2), 3])
            if patch:
                jax.tree_map(abs, [1])
    finally:
        del sys.modules["flax.jax_utils"]
    assert told.sites == ["body"]
    assert told.reads == [("index", 12), ("index", 12), ("unreplicate", 12), ("device_get", 96)]
    assert told.names == (["jax.pmap", "jax.tree_map"] if patch else [])
    assert library.unreplicate is stock
    assert jax.pmap(body)(ROWS).shape == (8, 3)
    assert told.sites == ["body"]
