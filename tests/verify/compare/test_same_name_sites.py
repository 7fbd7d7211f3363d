"""Functions of one name that the two programs map at other places, or in another order."""

from __future__ import annotations

import pytest

from tests.verify.recording import compared, program

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")

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
    "other names": "s = jax.pmap(b.step)\nt = jax.pmap(a.step)\nt(X); s(X)",
    "one line": "f, g = jax.pmap(a.step), jax.pmap(b.step)\nf(X); g(X)",
    "helper": "f, g = mapped(a.step), mapped(b.step)\nf(X); g(X)",
    "helper, other order": "g, f = mapped(b.step), mapped(a.step)\nf(X); g(X)",
}


@pytest.mark.parametrize("new", PROGRAMS)
@pytest.mark.parametrize("shift", [1, 2])
def test_namesakes(new: str, shift: int) -> None:
    old = (START + PROGRAMS["lines"]).replace("SHIFT", "1")
    text = (START + PROGRAMS[new]).replace("SHIFT", str(shift))
    verdicts = {site.verdict for site in compared(program(old), program(text))}
    assert ("different" in verdicts) == (shift == 2)
    assert verdicts <= {"identical", "different"}


def test_lambdas_of_a_helper() -> None:
    lines = "f = jax.pmap(lambda x: 2 * x)\ng = jax.pmap(lambda x: 3 * x)\nf(X); g(X); f(X)"
    helper = "f, g = mapped(lambda x: 2 * x), mapped(lambda x: 3 * x)\nf(X); g(X); f(X)"
    old, new = ((START + text).replace("SHIFT", "1") for text in (lines, helper))
    assert [site.verdict for site in compared(program(old), program(new))] == ["identical"] * 2
    wrong = compared(program(old), program(new.replace("3 * x", "4 * x")))
    assert sorted(site.verdict for site in wrong) == ["different", "identical"]


def test_a_function_that_is_not_called_as_often_is_not_merged() -> None:
    old = (START + PROGRAMS["lines"]).replace("SHIFT", "1")
    verdicts = {site.verdict for site in compared(program(old), program(old[: -len("; g(X)")]))}
    assert "not reached" in verdicts
