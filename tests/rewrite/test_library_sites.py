"""`equinox.filter_pmap` and `flax.nnx.pmap`: which sites are rewritten, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardlift.rewrite.helpers import emit
from shardlift.rewrite.sites import rewrite
from shardlift.source.model import HelperRequest
from tests.rewrite.steps import results, rewritten

NNX = "from flax import nnx\ndef g(x):\n    return x\n"
EQX = "import equinox as eqx\ndef g(x):\n    return x\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f = eqx.filter_pmap(g)", "f = filter_spmd_map(g)"),
        ("f = eqx.filter_pmap(g, axis_name='i')", "f = filter_spmd_map(g, axis_name='i')"),
        ("f = eqx.filter_pmap(lambda x: x)", "f = filter_spmd_map(lambda x: x)"),
        ("@eqx.filter_pmap\ndef f(x): ...", "@filter_spmd_map\ndef f(x): ..."),
        (
            "@eqx.filter_pmap(axis_name='i')\ndef f(x): ...",
            "@filter_spmd_map(axis_name='i')\ndef f(x): ...",
        ),
    ],
)
def test_rewritten(before: str, after: str) -> None:
    assert rewritten(rewrite, f"{EQX}{before}\n") == f"{EQX}{after}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f = nnx.pmap(g)", "f = nnx_spmd_map(g)"),
        ("@nnx.pmap\ndef f(x): ...", "@nnx_spmd_map\ndef f(x): ..."),
        (
            "@nnx.pmap(axis_name='i')\ndef f(x): ...",
            "@nnx_spmd_map(axis_name='i')\ndef f(x): ...",
        ),
    ],
)
def test_nnx_is_rewritten(before: str, after: str) -> None:
    assert rewritten(rewrite, f"{NNX}{before}\n") == f"{NNX}{after}\n"


def test_nnx_with_other_axes_is_refused() -> None:
    (match,) = results(rewrite, f"{NNX}f = nnx.pmap(g, in_axes=(None, 0))\n")
    assert "use nnx.jit with nnx.shard_map" in match.message
    assert not match.edits


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("f = eqx.filter_pmap(g, in_axes=(None,))", "other than axis_name"),
        ("f = eqx.filter_pmap(g, donate='all')", "other than axis_name"),
        ("f = eqx.filter_pmap(g, **options)", "other than axis_name"),
        ("f = eqx.filter_pmap(g, axis_name=None)", "axis_name=None"),
        ("f = eqx.filter_pmap(model)", "not known to be a function"),
        ("f = eqx.filter_pmap(*functions)", "not known to be a function"),
        ("f = train(eqx.filter_pmap)", "as a value"),
        ("import jax\njax.distributed.initialize()\nf = eqx.filter_pmap(g)", "many processes"),
        ("filter_spmd_map = 1\nf = eqx.filter_pmap(g)", "means something else"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    (match,) = results(rewrite, f"{EQX}{text}\n")
    assert reason in match.message
    assert not match.edits


X = np.arange(16, dtype=np.float32).reshape(8, 2)
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "arrays": (lambda x, y: {"sum": jax.lax.psum(x * y, "i")}, (jnp.array(X), X)),
    "a number": (lambda x, n: x * n, (jnp.array(X, jnp.bfloat16), 0.1)),
    "a word": (lambda x, word: x if word == "a" else -x, (jnp.array(X), "b")),
    "keys": (lambda key: jax.random.normal(key, (2,)), (jax.random.split(jax.random.key(0), 8),)),
    "fewer rows than devices": (lambda x: x + 1, (jnp.array(X[:3]),)),
    "what is no array": (lambda x: (x, None, "word", 3), (jnp.array(X),)),
}


def written(name: str = "filter_spmd_map", library: str = "equinox") -> Callable[..., Any]:
    """The helper, from the text that is written."""
    pytest.importorskip(library)
    names: dict[str, Any] = {"__name__": "written"}
    exec(emit([HelperRequest(name)]), names)
    return names[name]


@pytest.mark.libraries
@pytest.mark.parametrize("name", CALLS)
def test_it_computes_what_filter_pmap_computes(name: str) -> None:
    mapping = written()
    import equinox as eqx

    function, args = CALLS[name]
    expected = eqx.filter_pmap(function, axis_name="i")(*args)
    _assert_alike(mapping(function, axis_name="i")(*args), expected)


@pytest.mark.libraries
def test_modules_go_in_and_out() -> None:
    mapping = written()
    import equinox as eqx

    keys = jax.random.split(jax.random.key(0), 8)
    models = eqx.filter_vmap(lambda key: eqx.nn.MLP(2, 3, 4, 2, key=key))(keys)

    def step(model: Any, x: Any) -> Any:
        return model, model(x)

    expected = eqx.filter_pmap(step, axis_name="i")(models, X)
    _assert_alike(mapping(step, axis_name="i")(models, X), expected)


@pytest.mark.libraries
def test_a_function_that_is_mapped_again_is_traced_once() -> None:
    mapping, traced = written(), []

    def step(x: Any) -> Any:
        traced.append(1)
        return x

    for _ in range(3):
        mapping(step)(X)
    assert traced == [1]


def _train(mapping: Callable[..., Any]) -> Any:
    """A model with parameters, statistics and keys is trained; what it is after that."""
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.layer = nnx.Linear(2, 3, rngs=rngs)
            self.norm = nnx.BatchNorm(3, rngs=rngs)
            self.drop = nnx.Dropout(0.5, rngs=rngs)

    def step(model: Any, again: Any, x: Any) -> Any:
        def loss(model: Any) -> Any:
            return (model.drop(model.norm(model.layer(x[None]))) ** 2).mean()

        value, grads = nnx.value_and_grad(loss)(model)
        grads = jax.lax.pmean(grads, "i")
        params = jax.tree.map(lambda p, g: p - 0.1 * g, nnx.state(again, nnx.Param), grads)
        nnx.update(again, params)
        return again, {"loss": value}

    models = nnx.vmap(lambda key: Model(nnx.Rngs(key)))(jax.random.split(jax.random.key(0), 8))
    trained = mapping(step)
    losses = []
    for _ in range(2):
        returned, out = trained(models, models, X)
        assert returned is models
        losses.append(out)
    state = jax.tree.map(_without_key, nnx.to_pure_dict(nnx.state(models)))
    return losses, state


def _without_key(x: jax.Array) -> jax.Array:
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


@pytest.mark.libraries
def test_nnx_modules_are_trained_as_before() -> None:
    mapping = written("nnx_spmd_map", "flax")
    from flax import nnx

    expected = _train(lambda f: nnx.pmap(f, axis_name="i"))
    _assert_alike(_train(lambda f: mapping(f, axis_name="i")), expected)


@pytest.mark.libraries
@pytest.mark.parametrize("name", ["arrays", "keys", "fewer rows than devices"])
def test_nnx_computes_what_pmap_computes(name: str) -> None:
    mapping = written("nnx_spmd_map", "flax")
    from flax import nnx

    function, args = CALLS[name]
    expected = nnx.pmap(function, axis_name="i")(*args)
    _assert_alike(mapping(axis_name="i")(function)(*args), expected)


def _assert_alike(got: Any, expected: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        if isinstance(other, jax.Array):
            assert (one.dtype, one.weak_type) == (other.dtype, other.weak_type)
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        else:
            assert one is other or one == other
