"""Every rule against its own examples: they are its documentation, so they must hold."""

import re

import pytest

from shardlift.check.engine import RuleSelection, check_texts
from shardlift.check.rules import all_rules
from shardlift.source.model import Example, Rule
from shardlift.source.settings import Settings
from shardlift.source.target import NEWEST, NEWEST_FLAX

RULES = list(all_rules().values())


def _texts(example: Example) -> dict[str, str]:
    return {"example.py": example} if isinstance(example, str) else dict(example)


def _reported(rule: Rule, example: Example) -> set[tuple[str, int]]:
    settings = Settings(*(rule.holds_for or (NEWEST, NEWEST_FLAX)))
    reports = check_texts(_texts(example), RuleSelection(), settings)
    assert all(report.unreadable is None for report in reports.values())
    return {
        (path, finding.span.line)
        for path, report in reports.items()
        for finding in report.findings
        if finding.code == rule.code
    }


def _marked(rule: Rule, example: Example) -> set[tuple[str, int]]:
    mark = re.compile(rf"#\s*(noqa: )?{rule.code}\b")
    return {
        (path, number)
        for path, text in _texts(example).items()
        for number, line in enumerate(text.split("\n"), start=1)
        if mark.search(line)
    }


def _examples(kind: str) -> pytest.MarkDecorator:
    """Parametrizes a test with each rule and each of its bad, or good, examples."""
    examples = [(r, number, e) for r in RULES for number, e in enumerate(getattr(r, kind))]
    cases = [pytest.param(r, e, id=f"{r.code}-{number}") for r, number, e in examples]
    return pytest.mark.parametrize(("rule", "example"), cases)


@_examples("bad")
def test_bad_examples_are_reported_where_they_say(rule: Rule, example: Example) -> None:
    if rule.code == "SL001":
        assert _reported(rule, example)
        return
    assert _marked(rule, example)
    assert _reported(rule, example) == _marked(rule, example)


@_examples("good")
def test_good_examples_are_left_alone(rule: Rule, example: Example) -> None:
    assert _reported(rule, example) == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_is_complete(rule: Rule) -> None:
    assert re.fullmatch(r"SL[0-7]\d\d", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    assert rule.explain.strip()
    assert rule.reference.startswith("https://")
    assert len(rule.good) > len(rule.bad) > 0
    assert len(rule.summary) < 72
    assert rule.words or rule.names
