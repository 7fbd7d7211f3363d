"""Which sites of two programs belong together."""

from dataclasses import replace

import pytest

from shardlift.capture.schema import ArrayForm, Capture, Sample, SiteFacts, SiteKind, Values
from shardlift.verify.compare.judge import notes_on_jits
from shardlift.verify.compare.pairs import pair
from tests.verify.recording import compared, program


def _called(
    name: str,
    *outputs: ArrayForm,
    kind: SiteKind = SiteKind.PMAP,
    error: str = "",
    fails_first: bool = False,
    names: tuple[str, ...] = (),
) -> SiteFacts:
    """A site with one call, or with one that fails before it."""
    values = None if error else Values(0, ("x",) * len(outputs))
    sample = Sample(0, failed=bool(error), outputs=values, error=error)
    samples = (Sample(0, failed=True, error="no"), sample) if fails_first else (sample,)
    return SiteFacts(
        "a.py", 1, name, kind=kind, axis_size=8, samples=samples, forms=(outputs,), names=names
    )


STACKED = ArrayForm("loss", "float32", (8, 2))


@pytest.mark.parametrize(
    ("before", "after", "is_pair"),
    [
        (_called("f", STACKED), _called("g", ArrayForm("x", "float32", (16,))), True),  # joined
        (_called("f", STACKED), _called("g", ArrayForm("x", "float32", (2,))), True),  # one copy
        (_called("f", STACKED), _called("g", ArrayForm("x", "float32", (9, 2))), False),
        (_called("f", STACKED), _called("g", ArrayForm("x", "int32", (8, 2))), False),
        (_called("f", STACKED), _called("g", STACKED, STACKED), False),
        (_called("f", STACKED, fails_first=True), _called("g", STACKED), True),
        (_called("f", STACKED, fails_first=True), _called("g", STACKED, STACKED), False),
        (_called("f", error="no"), _called("g", error="no"), True),
        (_called("f", error="no"), _called("g", error="another"), False),
        (_called("f", STACKED), _called("g", error="no"), False),
        (_called("f", STACKED), _called("g", STACKED, kind=SiteKind.JIT), True),
        (_called("f", STACKED, kind=SiteKind.JIT), _called("g", STACKED), True),
        (
            _called("f", STACKED, kind=SiteKind.JIT),
            _called("g", STACKED, kind=SiteKind.SHARD_MAP),
            False,  # programs have many functions of jit and shard_map with such outputs
        ),
        (_called("f", STACKED), _called("g", names=("f",)), True),
        (_called("f", STACKED, names=("step",)), _called("g", names=("step",)), True),
        (_called("f", STACKED), SiteFacts("a.py", 1, "f"), False),  # never called
    ],
)
def test_sites_are_paired_if_they_share_a_name_or_their_outputs_fit(
    before: SiteFacts, after: SiteFacts, is_pair: bool
) -> None:
    assert pair([before], [after]) == [(0, 0)] * is_pair


def test_names_come_before_the_order() -> None:
    f, g = _called("f", STACKED), _called("g", STACKED)
    assert pair([f, g], [g, f]) == [(0, 1), (1, 0)]
    assert pair([f, g], [_called("h"), g, _called("k", STACKED)]) == [(0, 2), (1, 1)]


def _sites(keys: str, error: str) -> list[SiteFacts]:
    """``a.py:3:step b.py:9:step``, all of whose calls fail: no outputs tell which is which."""
    parts = [key.split(":") for key in keys.split()]
    return [replace(_called(f, error=error), file=file, line=int(line)) for file, line, f in parts]


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        ("a.py:1:f", "b.py:9:f", [(0, 0)]),
        ("a.py:1:f a.py:2:f", "a.py:2:f a.py:3:f", [(0, 0), (1, 1)]),  # a line was added above
        ("a.py:1:f a.py:2:f", "a.py:2:f", [(0, 0)]),
        ("a.py:1:f b.py:1:f", "b.py:5:f a.py:5:f", [(0, 1), (1, 0)]),
        ("a.py:1:f a.py:1:f a.py:2:f", "a.py:1:f a.py:1:f", [(0, 0), (1, 1)]),  # of one line
        ("a.py:1:<lambda>", "a.py:5:<lambda>", [(0, 0)]),
        ("a.py:1:<lambda>", "b.py:1:<lambda>", []),
    ],
)
def test_sites_of_one_name(before: str, after: str, pairs: list[tuple[int, int]]) -> None:
    assert pair(_sites(before, "no"), _sites(after, "another")) == pairs


def test_jits_of_one_program_are_named() -> None:
    jits = [_called(f"f{k}", kind=SiteKind.JIT) for k in range(6)]
    (note,) = notes_on_jits(Capture(), Capture(sites=tuple(jits)))
    assert note.startswith("jit functions only after, not compared: f0 (a.py:1), ")
    assert note.endswith(" and 2 more")
    assert notes_on_jits(Capture(), Capture()) == []


# Two functions of one name, mapped at other places or in another order.
START = """
X = np.arange(16, dtype="f4").reshape(8, 2)
class A:
    def step(self, x): return x * 2
class B:
    def step(self, x): return x + SHIFT
a, b = A(), B()
def mapped(f): return jax.pmap(f)
"""
# Each calls the step of A, and then the step of B.
PROGRAMS = {
    "lines": "f = jax.pmap(a.step)\ng = jax.pmap(b.step)\nf(X); g(X)",
    "other order": "g = jax.pmap(b.step)\nf = jax.pmap(a.step)\nf(X); g(X)",
    "one line": "f, g = jax.pmap(a.step), jax.pmap(b.step)\nf(X); g(X)",
    "helper, other order": "g, f = mapped(b.step), mapped(a.step)\nf(X); g(X)",
}


@pytest.mark.usefixtures("ranks_are_promoted")
@pytest.mark.parametrize("new", PROGRAMS)
@pytest.mark.parametrize("shift", [1, 2])
def test_namesakes(new: str, shift: int) -> None:
    old = (START + PROGRAMS["lines"]).replace("SHIFT", "1")
    text = (START + PROGRAMS[new]).replace("SHIFT", str(shift))
    verdicts = {site.verdict for site in compared(program(old), program(text))}
    assert ("different" in verdicts) == (shift == 2)
    assert verdicts <= {"identical", "different"}
