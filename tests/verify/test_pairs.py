"""Pairs of programs: mistakes that are made when pmap is moved, and what looks like one and is not.

Each is one step before, by pmap, and one after, by shard_map, on the same rows. `RIGHT` pairs
compute the same, however they are written. `WRONG` pairs do not; their cause is named if it can be
known.
"""

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


def steps(
    old: str, new: str, cause: str = "", calls: str = "w = f(w, X)", mapped: str = "on_rows(step)"
) -> Programs:
    """Programs that call one step, given by its body."""
    texts = [
        f"def step(w, x):\n{textwrap.indent(body, '    ')}\nf = {how}\n{calls}\n"
        for body, how in ((old, 'jax.pmap(step, "i")'), (new, mapped))
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
    "a mask of the norm": steps(
        MEAN + HALF, MEAN + NORM + SIGN.format("0.125 * g * (norm < 100).astype(g.dtype)")
    ),
    "a mean of a tree": steps(
        MEAN + HALF, MEAN.replace("grad(w, x)", "(w, grad(w, x))", 1) + "g = g[1]\n" + HALF
    ),
    "psum of the eighth": steps(MEAN + HALF, 'g = lax.psum(grad(w, x) / 8, "i")\n' + PRINT + HALF),
    "a rate that is computed": steps(
        "rate = jnp.abs(w[0]) + 1\n" + MEAN + SIGN.format("rate * g"),
        "rate = (jnp.abs(w[0]) + 1) / 8\n" + SUM + SIGN.format("rate * g"),
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


SGD = "return w - 0.1 * g"


def in_global(update: str, checked: bool) -> Programs:
    """Parameters that are the same on all devices, with and without check_vma."""
    cause = 'every array of g = lax.pmean(grad(w, x), "i"): 8.000 times too large: check_vma with '
    step = f"def step(w, x):\n    {MEAN}    {update}\n"
    after = BACKWARD.replace("out_specs", f"check_vma={checked}, out_specs")
    return Programs(f"{step}jax.pmap(step, 'i')(w, X)", f"{step}{after}(w[0], X)", cause * checked)


for update in (SGD, HALF):
    WRONG[f"summed twice: {update}"] = in_global(update, checked=True)
    RIGHT[f"summed once: {update}"] = in_global(update, checked=False)

# What is returned is a part of the batch, or what all devices have of it.
MOVED = """
def step(x, *key):
    BODY
f = jax.jit(jax.shard_map(lambda *args: WRAPPED, mesh=Mesh(np.array(jax.devices()), ("i",)),
    in_specs=SPECS, out_specs=OUT, check_vma=False))
f(X, *KEYS)
"""
PMAPPED = """
def step(x, *key):
    BODY
jax.pmap(step, "i")(X, *KEYS)
"""
ON_ROWS = "step(*(a[0] for a in args))[None]"


def moved(
    body: str, cause: str, wrapped: str = ON_ROWS, specs: str = 'P("i")', out: str = 'P("i")'
) -> Programs:
    """One body by pmap, and by shard_map with other specs."""
    keys = "[jax.random.split(jax.random.key(0), 8)]" if "key" in body else "[]"
    texts = [text.replace("BODY", body).replace("KEYS", keys) for text in (PMAPPED, MOVED)]
    new = texts[1].replace("WRAPPED", wrapped).replace("SPECS", specs).replace("OUT", out)
    return Programs(texts[0], new, cause)


DROPOUT = "kept = jax.random.bernoulli(key[0], 0.5, x.shape)\n    return jnp.where(kept, x, 0)"
PMEAN = 'return lax.pmean(x * 2, "i")'
WRONG |= {
    "a missing mean": steps(
        MEAN + SGD, "g = grad(w, x)\n" + SGD, "the devices disagree where they agreed before"
    ),
    "a sum for a mean": steps(
        PMEAN, PMEAN.replace("pmean", "psum"), "8.000 times too large: psum instead of pmean"
    ),
    "a mean for a sum": steps(
        PMEAN.replace("pmean", "psum"), PMEAN, "8.000 times too small: pmean instead of psum"
    ),
    "a mean inside of a gradient": steps(
        'g = jax.grad(lambda w: lax.pmean(jnp.sum(x @ w), "i"))(w)\nreturn lax.pmean(g, "i")',
        'g = jax.grad(lambda w: lax.pmean(jnp.sum(x @ w), "i"))(w)\nreturn lax.pmean(g, "i")',
        "8.000 times too small",
        mapped="on_rows(step, check_vma=True)",
    ),
    "another type": steps(
        MEAN + HALF,
        'g = lax.pmean(grad(w, x).astype(jnp.bfloat16), "i").astype(w.dtype)\n' + HALF,
        "the dtype changed",
    ),
    "statistics over all devices": steps(
        "return x.mean(0)",
        'return lax.pmean(x.mean(0), "i")',
        "the mean over the devices, where each device had its own value",
    ),
    "one key for all devices": moved(DROPOUT, "", specs='(P("i"), P())'),
    "one value of many": moved(
        "return x.sum()",
        "out_specs=P() or out_axes=None for a value that varies",
        wrapped="step(args[0][0])",
        out="P()",
    ),
}
RIGHT["a key of its own for each device"] = moved(DROPOUT, "")
# Options of pmap: other axes, and a static argument.
OPTIONS = """
def scale(x, times, shift):
    return {"sum": lax.psum(x, "i") * times + shift, "x": x}
"""
RIGHT["other axes and static arguments"] = Programs(
    OPTIONS
    + """jax.pmap(
    scale, axis_name="i", in_axes=(1, None, None), out_axes={"sum": None, "x": 1},
    static_broadcasted_argnums=1)(X[:, 0].T, 3, 0.5)""",
    OPTIONS
    + """
@functools.partial(jax.jit, static_argnames="times")
def scale(x, times, shift):
    body = lambda x: {"sum": lax.psum(x[:, 0], "i") * times + shift, "x": x}
    return jax.shard_map(body, mesh=Mesh(np.array(jax.devices()), ("i",)), in_specs=P(None, "i"),
        out_specs={"sum": P(), "x": P(None, "i")}, check_vma=False)(x)
scale(X[:, 0].T, times=3, shift=0.5)""",
)
DONATED = """
def step(s, x): return {name: a + k * x for k, (name, a) in enumerate(s.items(), 1)}
rows = NamedSharding(Mesh(np.array(jax.devices()), ("i",)), P("i"))  # or they are copied
s = jax.device_put({name: np.full((8, 3), k, "f4") for k, name in enumerate("mvw")}, rows)
"""
DONATING = """
f = jax.shard_map(step, mesh=rows.mesh, in_specs=P("i"), out_specs=P("i"))
jax.jit(f, donate_argnums=0)(s, w)
"""
DONATED_PMAP = DONATED + 'jax.pmap(step, "i", donate_argnums=0)(s, w)'
RIGHT["a state that is donated"] = Programs(DONATED_PMAP, DONATED + DONATING)
WRONG["a state that is donated"] = Programs(
    DONATED_PMAP, DONATED.replace("a + k * x", "a + 2 * k * x") + DONATING
)


# A second program of the step: of a phase, or of the last batch.
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
    ("the last batch", LAST, "on_rows(step)"),
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
    "a state and a tuple in another order": returned(STATE, "loss, mu, w, k, acc"),
    "names of another spelling": returned(
        STATE, "dict(Params=dict(w=w), Mu=mu, Step=k), [loss, acc]"
    ),
}
WRONG |= {
    "metrics exchanged": returned(STATE, "State(k, {'w': w}, mu), Metrics(acc, loss)"),
    "another collective": steps(
        'return w, lax.pmax(jnp.max(x), "i")',
        'return w, lax.pmin(jnp.max(x), "i")',
        calls="f(w, X)",
    ),
    "a rate": steps(MEAN + SGD, MEAN + "return w - 0.3 * g"),
    "an output more": returned("w, loss", "w, acc, loss"),
    "an output less": returned(STATE, "w, mu, loss, acc"),
}


def test_a_function_with_other_inputs_is_not_wrong_itself() -> None:
    """The first row is read between two functions: the second gets one value for all devices."""
    text = """
def loss_of(x): return x.sum()
def weigh(x, loss): return x * loss
losses = jax.pmap(loss_of)(X)
jax.pmap(weigh)(X, READ)
"""
    new = text.replace("READ", "np.stack([np.asarray(losses)[0]] * 8)")
    _, (first, second) = Programs(text.replace("READ", "losses"), new).compare()
    assert (first.verdict, second.verdict) == ("identical", "different")
    assert (first.itself, second.itself) == (None, False)
    _, (wrong,) = WRONG["a rate"].compare()
    assert wrong.itself is True
    assert second.causes[-1].startswith("its inputs differ: loss, in call 1: all devices have ")


def test_outputs_without_names_are_paired_by_the_calls_that_are_equal() -> None:
    """A dict has its leaves in the order of their names; the last call gets another input."""
    text = """
def step(x):
    return RETURNED
f = MAPPED
for k in range(3): f(X * LAST if k == 2 else X + k)
"""
    old = text.replace("RETURNED", "{'b': x.sum(), 'a': x.max()}").replace("LAST", "1")
    new = text.replace("RETURNED", "(x.sum(), x.max())").replace("LAST", "np.float32(8)")
    pair = Programs(old.replace("MAPPED", "jax.pmap(step)"), new.replace("MAPPED", "on_rows(step)"))
    _, (site,) = pair.compare()
    assert "x, in call 3: 8.000 times too large" in site.causes[0]
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
    assert "of one of more than 1 programs of this function" in gap_lines(site)[0]
