"""Ahead of time: lower, trace, eval_shape, explain, as_shard_map."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift

N = 8
X = np.arange(N * 2, dtype=np.float32).reshape(N, 2)
STATE = {"w": X, "step": np.arange(N, dtype=np.int32)}


def train(state, scale, batch, *, noise=None):
    w = state["w"] + lax.pmean(batch, "i") * scale
    if noise is not None:
        w += noise
    return {"w": w, "step": state["step"] + 1}, {"loss": lax.psum(w.sum(), "i")}


def make(**options):
    return shardlift.pmap(train, "i", static_broadcasted_argnums=1, donate_argnums=0, **options)


def fresh():
    return jax.tree.map(jnp.array, STATE)


def same(got, wanted):
    jax.tree.map(np.testing.assert_array_equal, got, wanted)


def test_compiled_programs_take_the_users_own_arguments():
    p = make()
    wanted = p(fresh(), 2.0, X)
    same(p.lower(STATE, 2.0, X).compile()(fresh(), X), wanted)
    abstract = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (STATE, X))
    same(p.lower(abstract[0], 2.0, abstract[1]).compile()(fresh(), X), wanted)
    lower = shardlift.pmap(lambda x: x * 3).lower  # keeps the function alive
    same(lower(X).compile()(X), X * 3)


@pytest.mark.parametrize("lower", ["lower", "trace"])
def test_trees_are_the_users(lower):
    lowered = getattr(make(), lower)(STATE, 2.0, X)
    if lower == "trace":
        lowered = lowered.lower()
    assert lowered.in_tree == jax.tree.structure(((STATE, X), {}))
    assert lowered.out_tree == jax.tree.structure((STATE, {"loss": 0}))
    args, kwargs = lowered.args_info
    assert jax.tree.structure(args) == jax.tree.structure((STATE, X))
    assert kwargs == {}
    assert args[0]["w"].shape == (N, 2)
    assert args[0]["w"].donated
    assert not args[1].donated
    _, kwargs = make().lower(STATE, 2.0, X, noise=X).args_info
    assert kwargs["noise"].shape == (N, 2)


def test_checks_come_ahead_of_time_too():
    p = shardlift.pmap(lambda a, b: a + b)
    for method in (p.lower, p.trace, p.eval_shape, p.explain, p.as_shard_map):
        with pytest.raises(ValueError, match="inconsistent sizes"):
            method(X, X[:4])


def test_explain_says_what_a_call_does():
    text = str(make().explain(STATE, 2.0, X))
    assert text == (
        "pmap of train\n"
        "  mesh\n"
        "    (i: 8) on cpu:0 cpu:1 cpu:2 cpu:3 cpu:4 cpu:5 cpu:6 cpu:7\n"
        "  arguments\n"
        "    state['step']: int32[8], P('i'), donated\n"
        "    state['w']: float32[8,2], P('i'), donated\n"
        "    batch: float32[8,2], P('i')\n"
        "  outputs\n"
        "    output[0]['step']: int32[8], P('i')\n"
        "    output[0]['w']: float32[8,2], P('i')\n"
        "    output[1]['loss']: float32[8], P('i')\n"
        "  collectives\n"
        "    psum over i, 2 times"
    )


def test_explain_finds_collectives_inside_control_flow():
    def body(x):
        looped = lax.scan(lambda c, _: (lax.ppermute(c, "i", [(0, 1)]), None), x, None, length=2)[0]
        return jax.jit(lambda v: lax.all_gather(v, "i"))(looped).sum() + lax.pmax(x, "i")

    found = {kind for kind, _, _ in shardlift.pmap(body, "i").explain(X[:, 0]).collectives}
    assert found == {"ppermute", "all_gather", "pmax"}
    assert "none" in str(shardlift.pmap(lambda x: x).explain(X))
    unmapped = shardlift.pmap(lambda x, y: y, in_axes=(1, None), out_axes=None).explain(X.T, 1.0)
    assert str(unmapped.inputs[0]) == "x: float32[2,8], P(None, '_pmap')"
    assert str(unmapped.outputs[0]) == "output: float32[], P()"


def test_as_shard_map_is_plain_jax_and_stands_alone():
    p = make()
    wanted = p(fresh(), 2.0, X)
    plain = p.as_shard_map(STATE, 2.0, X)
    assert type(plain) is type(jax.jit(train))
    same(plain(fresh(), 2.0, X), wanted)
    alone = shardlift.pmap(lambda x: x * 3).as_shard_map(X)  # the function is kept by it alone
    same(alone(X), X * 3)
    keyword = p.as_shard_map(STATE, 2.0, X, noise=X)
    same(keyword(fresh(), 2.0, X, noise=X), p(fresh(), 2.0, X, noise=X))
