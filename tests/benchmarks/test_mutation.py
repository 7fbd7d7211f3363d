"""`bench.mutation` plants the mistakes that it names."""

from pathlib import Path

import pytest
from bench.mutation import mutants

TEXT = """\
def first(values, kind):
    if values:
        return (values[0], kind)
    return kind is Kind.ONE or kind is Kind.TWO
"""


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("`values` negated", "if not values:"),
        ("`(values[0], kind)` without its last element", "return (values[0],)"),
        ("`kind is Kind.ONE` turned round", "return kind is not Kind.ONE or kind is Kind.TWO"),
        ("`Kind.ONE` exchanged for TWO", "return kind is Kind.TWO or kind is Kind.TWO"),
        ("`return (values[0], kind)` deleted", "pass"),
    ],
)
def test_a_mutant_has_the_mistake_that_it_names(what: str, line: str) -> None:
    (mutant,) = [m for make in mutants(Path("first.py"), TEXT) if (m := make()).what == what]
    lines = [line.strip() for line in mutant.text.splitlines()]
    assert line in lines
    assert len(set(lines) - {one.strip() for one in TEXT.splitlines()}) == 1
