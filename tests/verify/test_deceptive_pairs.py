"""Pairs of programs that were written to deceive `verify`, or to alarm it without need.

Each is one step before, by pmap, and one after, by shard_map, on the same rows. `RIGHT` pairs
compute the same, however they are written. `WRONG` pairs do not, and have a cause.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple

import pytest

from shardlift.recording.tape import taped_calls
from shardlift.verify.compare.verdicts import ProgramVerdict, Side, SiteVerdict
from shardlift.verify.verdict_text import gap_lines
from tests.verify.recording import compared, program

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")


HEAD = """
import collections, dataclasses
X = np.random.default_rng(0).normal(size=(8, 4, 3)).astype("f4") + 0.1
w = np.ones((8, 3), "f4")
def grad(w, x): return jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
"""


class Programs(NamedTuple):
    """Two programs, and the cause of their difference."""

    old: str
    new: str
    cause: str = ""

    def compare(self) -> tuple[int, list[SiteVerdict]]:
        """The exit status of `verify`, and the verdicts."""
        old, new = (program(HEAD + textwrap.dedent(text)) for text in (self.old, self.new))
        sites = compared(old, new)
        return ProgramVerdict(Side("before"), Side("after"), tuple(sites)).status, sites


def steps(old: str, new: str, cause: str = "", calls: str = "w = f(w, X)") -> Programs:
    """Programs that call one step, given by its body."""
    texts = [
        f"def step(w, x):\n{textwrap.indent(body, '    ')}\nf = {mapped}\n{calls}\n"
        for body, mapped in ((old, 'jax.pmap(step, "i")'), (new, "on_rows(step)"))
    ]
    return Programs(*texts, cause)


SIGN = "return w - 0.1 * jnp.sign({})"
HALF = SIGN.format("0.125 * g")
MEAN = 'g = lax.pmean(grad(w, x), "i")\n'
SUM = 'g = lax.psum(grad(w, x), "i")\n'
PRINT = 'jax.debug.print("{}", g)\n'
NORM = "norm = jnp.sqrt(jnp.sum(g * g))\n"

LOOP = """
def body(c, k):
    g = lax.pmean(c * k, "i")
    return c + jnp.sign(g), None
return w - 0.1 * lax.scan(body, w, jnp.arange(1.0, 5.0))[0]
"""
WRONG = {
    "one iteration of a scan": steps(
        LOOP,
        LOOP.replace("return c +", "g = jnp.where(k == 3, 8.0, 1.0) * g\n    return c +"),
        cause="8.000 times too large",
    ),
    "a print before, a factor after": steps(
        MEAN + PRINT + HALF, SUM + HALF, cause="8.000 times too large"
    ),
    "a factor that looks like a mean": steps(MEAN + HALF, SUM + HALF, cause="8.000 times too"),
    "the norm is printed": steps(
        MEAN + HALF, SUM + NORM + 'jax.debug.print("{}", norm)\n' + HALF, cause="8.000 times too"
    ),
    "several arrays in one": steps(
        'a, b = lax.pmean((grad(w, x), 2 * w), "i")\nreturn w - jnp.sign(a) * jnp.sign(b)',
        'c = lax.psum(jnp.stack([grad(w, x), 2 * w]), "i")\n'
        "return w - jnp.sign(c[0]) * jnp.sign(c[1])",
    ),
    "divided twice": steps(
        MEAN + SIGN.format("g"), MEAN + SIGN.format("g / 8"), cause="8.000 times too small"
    ),
    "normalised": steps(
        MEAN + NORM + "return w - 0.1 * g / norm",
        SUM + NORM + "return w - 0.1 * g / norm",
        cause="8.000 times too large",
    ),
}
RIGHT = {
    "a print": steps(MEAN + HALF, MEAN + PRINT + HALF),
    "a print before": steps(MEAN + PRINT + HALF, MEAN + HALF),
    "a mask of the norm": steps(
        MEAN + HALF, MEAN + NORM + SIGN.format("0.125 * g * (norm < 100).astype(g.dtype)")
    ),
    "a choice by the norm": steps(
        MEAN + HALF, MEAN + NORM + SIGN.format("0.125 * jnp.where(norm < 100, g, 0)")
    ),
    "a mean of a tree": steps(
        MEAN + HALF, MEAN.replace("grad(w, x)", "(w, grad(w, x))", 1) + "g = g[1]\n" + HALF
    ),
    "a mean of a block": steps(MEAN + HALF, 'g = lax.pmean(grad(w, x)[None], "i")[0]\n' + HALF),
    "psum and a division": steps(MEAN + HALF, SUM + "g = g / 8\n" + HALF),
    "psum and two factors": steps(MEAN + HALF, SUM + SIGN.format("0.015625 * g")),
    "psum of the eighth": steps(MEAN + HALF, 'g = lax.psum(grad(w, x) / 8, "i")\n' + PRINT + HALF),
    "a rate that is computed": steps(
        "rate = jnp.abs(w[0]) + 1\n" + MEAN + SIGN.format("rate * g"),
        "rate = (jnp.abs(w[0]) + 1) / 8\n" + SUM + SIGN.format("rate * g"),
    ),
    "a mean that is only printed": steps(
        MEAN + HALF, MEAN + 'jax.debug.print("{}", lax.pmean(jnp.sum(x), "i"))\n' + HALF
    ),
    "the same mean twice": steps(
        MEAN + "return w - 0.1 * jnp.sign(g) * jnp.tanh(g)",
        MEAN + 'return w - 0.1 * jnp.sign(g) * jnp.tanh(lax.pmean(grad(w, x), "i"))',
    ),
    "a helper that is jitted": steps(
        MEAN + HALF,
        "@jax.jit\ndef mean(t): return lax.psum(t, 'i') / 8\ng = mean(grad(w, x))\n" + HALF,
    ),
}


# The gradient of a mean, which check_vma sums in the backward pass; the mean itself is not used.
BACKWARD = """jax.jit(jax.shard_map(
    lambda w, x: step(w, x[0]), mesh=Mesh(np.array(jax.devices()), ("i",)),
    in_specs=(P(), P("i")), out_specs=P()))"""
RIGHT["the gradient of a mean"] = Programs(
    f"def step(w, x):\n    {MEAN}    return jnp.sign(g)\njax.pmap(step, 'i')(w, X)",
    'def step(w, x):\n    loss = lambda w: lax.pmean(jnp.mean((x @ w) ** 2), "i")\n'
    f"    return jnp.sign(jax.grad(loss)(w))\n{BACKWARD}(w[0], X)",
)
# Numbers in the first call, arrays in the others; and a name that the other program does not have.
OWNER = """
class Trainer:
    def NAME(self, w, x):
        return w - 0.1 * jnp.sign(lax.pmean(grad(w, x), "i"))
f = MAPPED(Trainer().NAME)
for k in range(4): w = f(w, X)
"""
RIGHT["a method of another name"] = Programs(
    OWNER.replace("NAME", "step").replace("MAPPED(", 'jax.pmap(axis_name="i", fun='),
    OWNER.replace("NAME", "_train").replace("MAPPED", "on_rows"),
)


# A second program of the step: of a phase, of the last batch, of a step that is made again.
PHASES = """
def step(w, x, phase):
    g = lax.pmean(grad(w, x), "i") if phase == "warmup" else lax.REDUCE(grad(w, x), "i")
    return w - 0.1 * jnp.sign(g)
f = functools.partial(MAPPED)
for phase in ["warmup"] * 3 + ["main"] * 3:
    w = f(w, X, phase)
"""
STATIC = {
    "jax.pmap": 'jax.pmap(step, "i", static_broadcasted_argnums=2)',
    "after": """jax.jit(lambda w, x, phase: jax.shard_map(
    lambda w, x: step(w[0], x[0], phase)[None], mesh=Mesh(np.array(jax.devices()), ("i",)),
    in_specs=P("i"), out_specs=P("i"), check_vma=False)(w, x), static_argnums=2)""",
}
LAST = """
def step(w, x):
    reduce = lax.pmean if x.shape[0] == 4 else lax.REDUCE
    return w - 0.1 * jnp.sign(reduce(grad(w, x), "i"))
f = MAPPED
for x in [X, X, X, X[:, :2]]:
    w = f(w, x)
"""
AGAIN = """
def make(reduce):
    def step(w, x):
        return w - 0.1 * jnp.sign(reduce(grad(w, x), "i"))
    return MAPPED
for reduce in [lax.pmean, lax.pmean, lax.REDUCE]:
    f = make(reduce)
    for _ in range(3):
        w = f(w, X)
"""
ROWS = "on_rows(step)"


def second(text: str, new: str, wrong: bool) -> Programs:
    """Programs whose second trace is right or wrong."""
    old = STATIC["jax.pmap"] if new == STATIC["after"] else 'jax.pmap(step, "i")'
    reduce = "psum" if wrong else "pmean"
    cause = "8.000 times too large" if wrong else ""
    return Programs(
        text.replace("MAPPED", old).replace("REDUCE", "pmean"),
        text.replace("MAPPED", new).replace("REDUCE", reduce),
        cause,
    )


for name, text, new in (
    ("a phase", PHASES, STATIC["after"]),
    ("the last batch", LAST, ROWS),
    ("a step that is made again", AGAIN, ROWS),
):
    WRONG[name], RIGHT[name] = second(text, new, True), second(text, new, False)

NESTED = """
def f(x):
    return x - lax.pmean(x, "j") + lax.axis_index("i").astype(x.dtype)
Y = np.arange(24, dtype="f4").reshape(2, 4, 3) ** 2
"""
MESH = """
mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("i", "j"))
jax.jit(jax.shard_map(lambda x: f(x[0, 0])[None, None], mesh=mesh,
    in_specs=P("i", "j"), out_specs=P("i", "j"), check_vma=False))(Y)
"""
PMAPS = NESTED + 'jax.pmap(jax.pmap(f, "j"), "i")(Y)'
RIGHT["nested maps and a mesh of two axes"] = Programs(PMAPS, NESTED + MESH)
WRONG["nested maps, and both axes of a mesh, under sign"] = Programs(
    PMAPS.replace('lax.pmean(x, "j")', 'jnp.sign(lax.pmean(x, "j"))'),
    (NESTED + MESH).replace('lax.pmean(x, "j")', 'jnp.sign(lax.pmean(x, ("i", "j")))'),
    "the mean over the devices, where each device had its own value",
)

TREES = """
@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    step: jax.Array
    params: dict
    mu: jax.Array
Metrics = collections.namedtuple("Metrics", "loss acc")
def numbers(w, x):
    loss, g = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
    loss, acc = lax.pmean((loss, jnp.mean((x @ w > 0).astype(x.dtype))), "i")
    g = lax.pmean(g, "i")
    return w - 0.1 * g, 0.9 * g, jnp.int32(1), loss, acc
def step(w, x):
    w, mu, k, loss, acc = numbers(w, x)
    return RETURNED
f = MAPPED
f(w, X)
"""


def returned(old: str, new: str, cause: str = "") -> Programs:
    """Programs whose step returns other trees."""
    texts = [TREES.replace("RETURNED", tree) for tree in (old, new)]
    maps = 'jax.pmap(step, "i")', "on_rows(step)"
    return Programs(*(t.replace("MAPPED", m) for t, m in zip(texts, maps, strict=True)), cause)


STATE = "State(k, {'w': w}, mu), Metrics(loss, acc)"
RIGHT |= {
    "a namedtuple and a dict": returned("w, Metrics(loss, acc)", "w, dict(loss=loss, acc=acc)"),
    "a state and a tuple": returned(STATE, "k, w, mu, loss, acc"),
    "a state and a tuple in another order": returned(STATE, "loss, mu, w, k, acc"),
    "a dict and a tuple": returned("{'w': w, 'k': k, 'loss': loss}", "w, k, loss"),
    "names of another spelling": returned(
        STATE, "dict(Params=dict(w=w), Mu=mu, Step=k), [loss, acc]"
    ),
    "other nesting": returned("w, (loss, acc)", "(w, loss), acc"),
}
WRONG |= {
    "metrics exchanged": returned(
        STATE, "State(k, {'w': w}, mu), Metrics(acc, loss)", "have each other's values"
    ),
    "metrics in a circle": returned(
        "dict(a=loss, b=acc, c=k)",
        "dict(a=acc, b=(loss), c=k)",
        "output['a'] and output['b'] have each other's values",
    ),
    "another collective": steps(
        'return w, lax.pmax(jnp.max(x), "i")',
        'return w, lax.pmin(jnp.max(x), "i")',
        cause="pmin instead of pmax: return w, lax.pmin(",
        calls="f(w, X)",
    ),
    "a rate": steps(
        MEAN + "return w - 0.1 * g",
        MEAN + "return w - 0.3 * g",
        cause="the update is 3.000 times too large, everywhere",
    ),
    "an output more": returned("w, loss", "w, acc, loss"),
    "an output less": returned("w, acc, loss", "w, loss"),
    "a state whose step is missing": returned(STATE, "w, mu, loss, acc"),
}


def test_what_follows_from_a_cause_is_none() -> None:
    """Exchanged outputs are exchanged inputs of the next call, and other numbers after it."""
    text = """
def step(s, x):
    a, b = s
    return RETURNED, a + 2 * b * x.sum()
f = MAPPED
s = w, 2 * w
for k in range(3): s, out = f(s, X)
"""
    old = text.replace("RETURNED", "(a * 3, b * 5)").replace("MAPPED", "jax.pmap(step)")
    new = text.replace("RETURNED", "(b * 5, a * 3)").replace("MAPPED", "on_rows(step)")
    _, (site,) = Programs(old, new).compare()
    assert site.causes[0] == "output[0][0] and output[0][1] have each other's values"
    assert not any("leaves" in cause or "s[0]" in cause for cause in site.causes)


def test_outputs_without_names_are_paired_by_the_calls_that_are_equal() -> None:
    """A dict has its leaves in the order of their names; the last call gets another input."""
    text = """
def step(x):
    return RETURNED
f = MAPPED
for k in range(3): f(X * LAST if k == 2 else X + k)
"""
    old = text.replace("RETURNED", "{'b': x.sum(), 'a': x.max()}").replace("LAST", "1")
    new = text.replace("RETURNED", "(x.sum(), x.max())").replace("LAST", "np.float32(1.5)")
    pair = Programs(old.replace("MAPPED", "jax.pmap(step)"), new.replace("MAPPED", "on_rows(step)"))
    _, (site,) = pair.compare()
    assert "x, in call 3: 1.500 times too large" in site.causes[0]
    assert len(site.causes) == 1


@pytest.mark.parametrize("pair", WRONG.values(), ids=WRONG)
def test_wrong_pairs(pair: Programs) -> None:
    status, sites = pair.compare()
    assert status == 1
    said = " ".join(cause for site in sites for cause in site.causes)
    assert bool(said) == bool(pair.cause), said
    assert pair.cause in said, (said, sites)


@pytest.mark.parametrize("pair", RIGHT.values(), ids=RIGHT)
def test_right_pairs(pair: Programs) -> None:
    status, sites = pair.compare()
    assert [site.verdict for site in sites] == ["identical"] * len(sites), sites
    assert status == 0
    assert not any(site.causes for site in sites)


def test_programs_that_are_not_looked_at_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taped_calls, "MOST_PROGRAMS", 1)
    status, (site,) = RIGHT["the last batch"].compare()
    assert (status, site.verdict) == (1, "partly compared")
    assert "of the program for float32[8,3], float32[8,2,3]" in gap_lines(site)[0]
