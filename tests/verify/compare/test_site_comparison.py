"""Collectives: each is compared with its partner, and what has none is said."""

import pytest

from shardlift.capture.schema import Part
from shardlift.verify.compare.site_comparison import explain
from shardlift.verify.compare.verdicts import GapKind, LeafDifference, ProgramVerdict, Side
from tests.verify.recording import compared, one, program

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")

# An optimiser that takes the sign of a gradient: outputs do not show its scale.
START = """
rng = np.random.default_rng(0)
W, X = np.stack([rng.normal(size=3).astype("f4")] * 8), rng.normal(size=(8, 3)).astype("f4")
"""
STEP = """
def step(w, x):
    g = jax.grad(lambda w: jnp.sum(x * w))(w)
    g = lax.pmean(g, "i")
    return w - 0.1 * jnp.sign(g)
"""
BEFORE = START + STEP + 'jax.pmap(step, axis_name="i")(W, X)'
AFTER = START + STEP + "on_rows(step)(W, X)"
MEAN = 'g = lax.pmean(g, "i")'
WRONG_SCALE = {"jnp.sum(x * w)": "8 * jnp.sum(x * w)"}


def after(*changes: dict[str, str]) -> str:
    text = AFTER
    for change in changes:
        for old, new in change.items():
            assert old in text
            text = text.replace(old, new)
    return text


def verdict(text: str, **options: object):
    return one(compared(program(BEFORE), program(text), **options))


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({MEAN: "pass"}, {GapKind.ONLY_BEFORE}),
        (
            {MEAN: MEAN + '; g = jnp.where(lax.psum(x.sum(), "i") < 1e9, g, 0)'},
            {GapKind.ONLY_AFTER},
        ),
        ({MEAN: 'g = lax.all_gather(g, "i")[0]'}, {GapKind.ONLY_BEFORE, GapKind.ONLY_AFTER}),
    ],
    ids=["missing", "more", "another kind"],
)
def test_a_collective_without_partner(change: dict[str, str], kinds: set[GapKind]) -> None:
    same_rows = {"rng.normal(size=(8, 3)).astype": "np.stack([rng.normal(size=3)] * 8).astype"}
    before = BEFORE
    for old, new in same_rows.items():
        before = before.replace(old, new)
    found = one(compared(program(before), program(after(same_rows, change))))
    assert found.verdict == "partly compared"
    assert {gap.kind for gap in found.gaps} == kinds
    assert ProgramVerdict(Side("a"), Side("b"), (found,)).status == 1


@pytest.mark.parametrize("keep", [0, 10**6])
@pytest.mark.parametrize("change", [{}, WRONG_SCALE], ids=["right", "wrong"])
def test_values_that_are_not_kept_are_not_counted(keep: int, change: dict[str, str]) -> None:
    found = verdict(after(change), keep=keep)
    if not change:
        assert (found.verdict, found.collectives) == ("identical", 1)
    elif keep:
        assert (found.verdict, found.collectives) == ("different", 1)
    else:
        assert (found.verdict, found.collectives) == ("partly compared", 0)
        assert [gap.kind for gap in found.gaps] == [GapKind.VALUES_NOT_KEPT]


def test_results_in_another_order_are_the_same() -> None:
    """Rounded differently, so that their digests do not pair them."""
    two = """
def step(w, x):
    a, b = lax.psum(x * 0.1 * 0.7, "i"), lax.psum(w * 0.3, "i")
    return jnp.sign(a) + jnp.sign(b)
"""
    other = """
def step(w, x):
    b = lax.psum(w * 0.1 * 3, "i")
    a = lax.psum(x * 0.07, "i")
    return jnp.sign(a) + jnp.sign(b)
"""
    before = START + two + 'jax.pmap(step, axis_name="i")(W, X)'
    found = one(compared(program(before), program(START + other + "on_rows(step)(W, X)")))
    assert (found.verdict, found.collectives) == ("identical", 2)


def test_collectives_that_are_not_recorded_are_said() -> None:
    text = START + STEP.replace(MEAN, f"{MEAN}; g += io_callback(lambda: W[0, 0] * 0, W[0, 0])")
    text = "from jax.experimental import io_callback\n" + text
    old, new = (
        text + call for call in ('jax.pmap(step, axis_name="i")(W, X)', "on_rows(step)(W, X)")
    )
    found = one(compared(program(old), program(new)))
    assert found.verdict == "partly compared"
    assert {gap.kind for gap in found.gaps} == {GapKind.COLLECTIVES_NOT_RECORDED}
    found = one(compared(program(old), program(new), tapped=0))
    assert (found.verdict, found.outputs_only) == ("identical", True)


# ---- outputs


@pytest.mark.parametrize("specs", [("a", "a"), ("b", "b"), (None, None)])
def test_copies_that_disagree_on_some_devices(specs: tuple[str | None, str]) -> None:
    """Of an array that is split over one axis of the mesh, and copied over the other."""
    text = """
mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b"))
X = np.arange(16, dtype="f4").reshape(8, 2)
def step(x):
    return x * 2 + jnp.where(lax.axis_index(("a", "b")) == DEVICE, 1, 0).astype(x.dtype)
f = jax.shard_map(step, mesh=mesh, in_specs=P(AXIS), out_specs=P(AXIS), check_vma=False)
jax.jit(f)(X)
"""
    text = text.replace("AXIS", repr(specs[0]))
    none, some = text.replace("DEVICE", "8"), text.replace("DEVICE", "5")
    assert one(compared(program(none), program(none))).verdict == "identical"
    assert one(compared(program(none), program(some))).verdict == "different"
    assert one(compared(program(some), program(none))).verdict == "different"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("raise ArithmeticError('a')", "identical"),
        ("raise ArithmeticError('b')", "different"),
        ("raise ZeroDivisionError('a')", "different"),
        ("return x", "different"),
    ],
)
def test_calls_that_fail_in_both_programs(body: str, found: str) -> None:
    text = """
def step(x): BODY
def fine(x): return x
f = MAP(step)
MAP(fine)(np.ones((8, 2)))
try: f(np.ones((8, 2)))
except ArithmeticError: pass
"""
    old = text.replace("BODY", "raise ArithmeticError('a')").replace("MAP", "jax.pmap")
    new = text.replace("BODY", body).replace("MAP", "on_rows")
    verdicts = {site.name: site.verdict for site in compared(program(old), program(new))}
    assert verdicts == {"fine": "identical", "step": found}


ONE_DEVICE = """jax.jit(jax.shard_map(
    functools.wraps(step)(lambda w, x: step(w[0], x[0])[None]),
    mesh=Mesh(np.array(jax.devices()[:1]), ("i",)), in_specs=P("i"), out_specs=P("i")))"""


def test_a_verdict_about_one_device_says_so() -> None:
    old, new = (text.replace("(W, X)", "(W[:1], X[:1])") for text in (BEFORE, AFTER))
    new = new.replace("on_rows(step)", ONE_DEVICE).replace("lax.pmean", "lax.psum")
    site = one(compared(program(old), program(new)))
    assert site.verdict == "identical"
    assert [gap.kind for gap in site.gaps] == [GapKind.ONE_DEVICE]


def _finding(part: Part, cause: str = "", call: int = 0, about: str = "") -> LeafDifference:
    return LeafDifference("x", call, part, "differs", cause=cause, about=about)


def test_nothing_is_explained_if_nothing_differs() -> None:
    close = LeafDifference("x", 0, Part.OUTPUTS, "differs", cause="rounding", close=True)
    assert list(explain([close], True, "x")) == []
    assert list(explain([], None, "x")) == []


@pytest.mark.parametrize(
    ("findings", "causes"),
    [
        ([_finding(Part.CALLS)], []),
        (
            [_finding(Part.OUTPUTS, "b"), _finding(Part.OUTPUTS, "a"), _finding(Part.OUTPUTS, "b")],
            ["2 of 3 differing leaves: b", "1 of 3 differing leaves: a"],
        ),
        (  # later calls differ because of the first
            [_finding(Part.OUTPUTS, "a", call=1), _finding(Part.OUTPUTS, "b", call=2)],
            ["1 of 2 differing leaves: a"],
        ),
        (
            [_finding(Part.INSIDE, "c", about="psum(x)"), _finding(Part.OUTPUTS, "a")],
            ["every array of psum(x): c"],
        ),
        (
            [_finding(Part.INSIDE, "c", about="psum(x)"), _finding(Part.INSIDE, "c", about="y")],
            ["2 collectives: c"],
        ),
        (
            [_finding(Part.INSIDE, "c", about="psum(x)"), _finding(Part.INSIDE, about="y")],
            ["1 collective: c"],
        ),
    ],
)
def test_causes_of_arrays(findings: list[LeafDifference], causes: list[str]) -> None:
    assert list(explain(findings)) == causes


DIFFERENT = [_finding(Part.OUTPUTS)]


@pytest.mark.parametrize("itself", [True, False, None])
def test_other_inputs_are_a_cause_unless_the_function_differs_itself(itself: bool | None) -> None:
    causes = [] if itself else ["its inputs differ: x: too large"]
    assert list(explain(DIFFERENT, itself, "x: too large")) == causes
