"""What counts as a call of a mapped function, and programs that cannot be compared bit by bit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from shardlift.verify.compare.array_distance import Tolerance
from shardlift.verify.compare.judge import judge
from shardlift.verify.compare.verdicts import GapKind
from tests.verify.recording import before, compared, one, program, taped

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")

N = 8


@pytest.mark.slow
def test_jit_with_shardings_is_another_program():
    """One loss over the whole batch, and no collectives to compare with."""
    text = """
X = np.random.default_rng(0).normal(size=(8, 2, 5)).astype("f4")
W = X[0, 0]
def train_step(w, x):
    g = REDUCED(jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w))
    return w - 0.1 * g
"""
    old = text.replace("REDUCED(", "lax.pmean(axis_name='i', x=")
    old += 'jax.pmap(train_step, "i")(np.stack([W] * 8), X)'
    new = (
        text.replace("REDUCED", "")
        + """
rows = NamedSharding(Mesh(np.array(jax.devices()), ("i",)), P("i"))
jax.jit(train_step, in_shardings=(None, rows))(W, X.reshape(-1, 5))
"""
    )
    found = one(compared(program(old), program(new), Tolerance(rtol=1e-6)))
    assert found.verdict in ("identical", "close")


def test_only_the_outermost_call_counts():
    def program():
        inner = jax.jit(lambda x: x + 1)

        def outer(x):
            return inner(x) * 2

        jax.pmap(outer)(np.ones((N, 2), np.float32))
        jax.grad(lambda x: inner(x).sum())(jnp.ones(2))

    sites = before(program).capture.sites
    assert [(site.function, len(site.samples)) for site in sites if site.samples] == [("outer", 1)]


def test_pmaps_inside_of_others_are_part_of_them():
    def program(under=None):
        inner = jax.pmap(lambda x: lax.psum(x, "j"), axis_name="j")

        def outer(x):
            return inner(x) * 2

        jax.pmap(outer, axis_name="i")(np.ones((2, 4), np.float32))
        if under is not None:
            double = jax.pmap(lambda x: 2 * x)
            under(lambda x: double(x).sum())(np.ones(N, np.float32))

    one_side = before(program)
    found = one(judge(one_side, one_side))
    assert (found.name, found.verdict) == ("outer", "identical")
    one_side = before(lambda: program(jax.grad))
    found = judge(one_side, one_side)
    assert [site.verdict for site in found] == ["identical", "not compared"]
    assert [gap.kind for gap in found[1].gaps] == [GapKind.TRANSFORMED]
    one_side = before(lambda: program(jax.jit))
    assert [site.verdict for site in judge(one_side, one_side)] == ["identical", "identical"]


def test_what_jit_returns_is_what_it_was():
    def program():
        class Model:
            @functools.partial(jax.jit, static_argnums=0)
            def double(self, x):
                return x * 2

        assert Model().double(jnp.ones(2)).tolist() == [2, 2]
        decorated = jax.jit(static_argnums=1)(lambda x, n: x * n)
        assert decorated(jnp.ones(2), 3).tolist() == [3, 3]
        assert decorated.lower(jnp.ones(2), 3).compile()(jnp.ones(2)).tolist() == [3, 3]
        assert decorated.eval_shape(jnp.ones(2), 3).shape == (2,)
        assert jax.jit(jnp.sum)(jnp.ones(2)) == 2  # no function of the program's

    calls = {s.function: len(s.samples) for s in taped(program).capture.sites}
    assert calls == {"double": 1, "<lambda>": 1}  # not the one that was compiled by hand
