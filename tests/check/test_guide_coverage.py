"""Every row of docs/guide_coverage.md has a rule, and the test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shardlift.check.rules import all_rules

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "guide_coverage.md"


def _rows() -> list[tuple[str, str, str]]:
    rows = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("|") and not line.startswith(("| statement", "|---")):
            statement, code, shown = (part.strip() for part in line.strip("|").split(" | "))
            rows.append((statement, code, shown))
    return rows


@pytest.mark.parametrize(("statement", "code", "shown"), _rows())
def test_a_row_has_a_rule_and_a_test(statement: str, code: str, shown: str) -> None:
    rule = all_rules()[code]
    example = re.fullmatch(r"(bad|good) (\d+)", shown)
    if example is not None:
        listed = rule.bad if example[1] == "bad" else rule.good
        assert 1 <= int(example[2]) <= len(listed)
    else:
        file, _, name = shown.partition("::")
        assert f"def {name}(" in (HERE / file).read_text()


def test_every_rule_has_a_row() -> None:
    assert {code for _, code, _ in _rows()} == set(all_rules())


def test_there_are_rows() -> None:
    assert len(_rows()) > 60
