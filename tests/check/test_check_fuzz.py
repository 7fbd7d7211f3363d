"""No text, however broken, makes the linter fall over; tests/fuzz has mutated files and bytes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardlift.check.engine import check_text
from shardlift.source.edits import apply_edits

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@QUICK
@given(st.text(max_size=80))
def test_text_in_any_script(text: str) -> None:
    before, after = f"import jax\nx = {text!r}; y = jax.tree", f"map(f, x)  # {text!r}\n"
    program = f"{before}_{after}"
    report = check_text(program)
    if report.unreadable is None:
        (finding,) = report.findings
        assert apply_edits(program, finding.edits) == f"{before}.{after}"


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
