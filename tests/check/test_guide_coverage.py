"""Every row of docs/guide_coverage.md is true of the guide's own example, shortened."""

import re
import tomllib
from pathlib import Path

import pytest

from shardlift.check.engine import check_text
from shardlift.check.rules import all_rules
from shardlift.source.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "guide_coverage.md"
_GUIDE = tomllib.loads(Path(__file__).with_name("guide_examples.toml").read_text())
HEAD, EXAMPLES = _GUIDE["head"], _GUIDE["statements"]


def _rows(heading: str) -> list[tuple[str, str, str]]:
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (?!statement)(.+?) \| (SL\d+) \| (.+) \|$", section, re.M)
    assert len(rows) == section.count("\n|") - 2
    return rows


@pytest.mark.parametrize(("statement", "code", "quote"), _rows("In the guide"))
def test_the_example_of_a_statement(statement: str, code: str, quote: str) -> None:
    text = EXAMPLES[statement]
    reported = [line for line in text.splitlines() if line.endswith("#!")]
    assert any(quote.strip("`") in line for line in reported or text.splitlines())
    target = all_rules()[code].holds_for  # the versions that the statement is about
    settings = Settings(*target) if target is not None else Settings()
    findings = check_text(HEAD + text + "\n", settings=settings).findings
    lines = [(HEAD + text).splitlines()[f.span.line - 1] for f in findings if f.code == code]
    assert lines == reported


def test_every_example_has_a_row() -> None:
    assert {statement for statement, _, _ in _rows("In the guide")} == set(EXAMPLES)


@pytest.mark.parametrize(("statement", "code", "shown"), _rows("Besides the guide"))
def test_a_row_names_an_example_of_its_rule(statement: str, code: str, shown: str) -> None:
    assert 1 <= int(shown.removeprefix("bad ")) <= len(all_rules()[code].bad)


def test_every_rule_has_a_row() -> None:
    rows = _rows("In the guide") + _rows("Besides the guide")
    assert {code for _, code, _ in rows} == set(all_rules())
