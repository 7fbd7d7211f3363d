"""What raises an error today and did not: old keywords, None in a tree, names of NumPy."""

import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardlift
from shardlift._legacy import Uses, keywords
from shardlift._legacy.names import resolve
from shardlift._legacy.patches import Patches

X = jnp.arange(6.0)


def test_inside():
    with shardlift.legacy() as uses:
        np.testing.assert_array_equal(jnp.clip(X, a_min=1.0, a_max=3.0), np.clip(X, 1, 3))
        np.testing.assert_array_equal(jnp.clip(a=X, a_min=4.0), np.maximum(X, 4))
        np.testing.assert_array_equal(jnp.clip(X, 1.0, 3.0), np.clip(X, 1, 3))
        assert jnp.reshape(X, newshape=(2, 3)).shape == (2, 3)
        assert jnp.broadcast_to([1.0], (2, 1)).sum() == 2
        assert jnp.quantile(X, 0.5, interpolation="lower") == 2
        assert jnp.percentile(X, 50, interpolation="higher") == 3
        clipped = jax.jit(lambda x: jnp.clip(x, a_max=2.0))(X)
    np.testing.assert_array_equal(clipped, np.minimum(X, 2))
    assert uses["jax.numpy.clip(a_min=)"] == 2
    assert uses["jax.numpy.reshape(newshape=)"] == 1


def test_keywords_without_effect():
    with shardlift.legacy() as uses:
        square = jax.remat(lambda x: x**2, concrete=False)
        assert jax.grad(square)(3.0) == 6
        assert jax.nn.softmax(jnp.zeros(2), initial=1.0)[0] == 0.5
    assert uses["jax.remat(concrete=)"] == 1


def test_jaxprs_by_keyword_since_they_are_of_one_class(monkeypatch):
    class Jaxpr:
        def __init__(self, *args, **options):
            self.given = args, options

    core = SimpleNamespace(Jaxpr=Jaxpr, ClosedJaxpr=Jaxpr)
    monkeypatch.setitem(sys.modules, "jax.extend.core", core)
    keywords._restore_closed_jaxpr(Patches(), uses := Uses())
    assert Jaxpr(jaxpr=1, consts=2).given == ((1, 2), {})
    assert Jaxpr(1, effects=3).given == ((1,), {"effects": 3})
    assert uses == {"jax.extend.core.ClosedJaxpr(jaxpr=)": 1}


def test_pjit_by_resources():
    mesh = Mesh(np.array(jax.devices()), ("i",))
    with shardlift.legacy():
        from jax.experimental.pjit import pjit, with_sharding_constraint

        def body(x):
            return with_sharding_constraint(x, axis_resources=NamedSharding(mesh, P()))

        rows, whole = (NamedSharding(mesh, spec) for spec in (P("i"), P()))
        y = pjit(body, in_axis_resources=rows, out_axis_resources=whole)(jnp.ones(8))
    assert y.sharding == whole


@pytest.mark.parametrize("tree_map", ["jax.tree.map", "jax.tree_util.tree_map", "jax.tree_map"])
def test_none_is_a_prefix_of_any_tree(tree_map):
    """What jax 0.4.20 returns."""
    with shardlift.legacy() as uses:
        tree_map = resolve(tree_map)
        assert tree_map(lambda x, y: x + y, [1, None], [2, [3, 4]]) == [3, None]
        assert tree_map(lambda x, y: y, None, {"a": 1}) is None
        assert tree_map(lambda x, y: (x, y), [None], [1], is_leaf=lambda x: x is None) == [
            (None, 1)
        ]
        with pytest.raises(ValueError, match="mine"):
            tree_map(fail, [1, None], [2, None])
        with pytest.raises(ValueError, match="structure"):
            tree_map(lambda x, y: x, [1, None], [2])
    assert uses["jax.tree.map(f, None, tree)"] == 2
    with pytest.raises(ValueError, match="NoneType"):
        jax.tree.map(lambda x, y: y, None, {"a": 1})


def fail(*_):
    raise ValueError("mine")


def test_a_number_of_an_array_with_axes():
    x = jnp.full((1, 1), 2.5)
    with shardlift.legacy() as uses:
        assert (float(x), int(x), complex(x)) == (2.5, 2, 2.5)
        assert float(jnp.float32(2)) == 2
        with pytest.raises(TypeError):
            float(X)
        assert x.broadcast((2,)).shape == (2, 1, 1)
        assert len(X.split(3)) == 3
    assert uses["jax.Array.__float__"] == 1
    with pytest.raises(TypeError):
        float(x)


def test_names_of_numpy():
    with shardlift.legacy() as uses:
        assert np.float is float
        assert np.product([2, 3]) == 6
        assert np.in1d([[1, 2]], [2]).tolist() == [False, True]
        assert [np.issctype(kind) for kind in (int, np.float32, list, 3)] == [
            True,
            True,
            False,
            False,
        ]
        with pytest.raises(AttributeError, match="no_such_name"):
            np.no_such_name  # noqa: B018
    assert uses["numpy.float"] == 1
    assert not hasattr(np, "product")
