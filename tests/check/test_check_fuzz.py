"""No text, however broken, makes the linter fall over; tests/fuzz has bytes and more examples."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardlift.check.engine import FileReport, check_text
from shardlift.source.edits import apply_edits

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
_WORDS = (
    "jax pmap f x n 0 1 'i' ( ) [ ] , . = : * ** @ lambda def return if else for in "
    "jax.pmap jax.jit functools.partial import from as class self.g None tree_map"
)
TOKENS = [*_WORDS.split(), "\n", "\n    ", " ", "import jax\n", "def f(x):\n    return x\n"]


def _lines(text: str) -> int:
    return text.count("\n") + text.count("\r") + 1


def _is_sane(text: str, report: FileReport) -> None:
    for finding in report.findings:
        assert 1 <= finding.span.line <= finding.span.end_line <= _lines(text)
    for finding in report.findings:
        apply_edits(text, finding.edits)


@QUICK
@given(st.lists(st.sampled_from(TOKENS), max_size=60))
def test_random_tokens(tokens: list[str]) -> None:
    text = " ".join(tokens)
    _is_sane(text, check_text(text))


@QUICK
@given(st.text(max_size=80))
def test_text_in_any_script(text: str) -> None:
    program = f"import jax\nx = {text!r}; y = jax.tree_map(f, x)  # {text!r}\n"
    report = check_text(program)
    if report.unreadable is None:
        (finding,) = report.findings
        assert apply_edits(program, finding.edits) == program.replace(
            "jax.tree_map", "jax.tree.map"
        )


@pytest.mark.parametrize(
    "text",
    [
        "import jax\nx = " + "(" * 80 + "jax.pmap(f)" + ")" * 80,
        "import jax\nx = jax.pmap(f)" + ".a" * 3000,
        "import jax\nx = " + "-" * 3000 + "jax.pmap(f)",
        "import jax\nx = " + " + ".join(["jax.pmap(f)(x)"] * 300),
        "import jax\n" + "x = jax.pmap(f)(x)\n" * 300,
        "import jax\nf = jax.pmap(f)\n" * 200,
        "import jax\nx = x = x\njax.pmap(x)(x)",
        "import jax\ndef f():\n    return f()\njax.pmap(f())(f)",
        "import jax\nf = lambda: f\njax.pmap(f()())",
        "from . import *\nfrom .. import pmap\npmap(f)",
        "import jax\nclass A(A):\n    x = A.x\njax.pmap(A().x)",
    ],
)
def test_deep_wide_and_circular(text: str) -> None:
    report = check_text(text)
    assert report.parsed or report.unreadable
