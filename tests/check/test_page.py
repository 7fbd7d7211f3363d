"""The documentation page of a rule."""

import dataclasses

import pytest

from shardlift.check.page import page
from shardlift.check.rules import all_rules
from shardlift.source.model import Rule


@pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.code)
def test_pages_have_every_part(rule: Rule) -> None:
    text = page(rule)
    assert text.startswith(f"# {rule.code} {rule.name}\n")
    assert f"**{rule.level.value}**: " in text
    assert rule.reference in text
    assert text.index("## Reported") < text.index("## Left alone")
    assert text.count("```python\n") == len(rule.bad) + len(rule.good)


def test_the_version_is_named_if_there_is_one() -> None:
    rule = all_rules()["SL201"]
    assert ", since JAX" not in page(rule)
    assert ", since JAX 0.10." in page(dataclasses.replace(rule, since=(0, 10)))


def test_examples_of_several_files_name_them() -> None:
    rule = dataclasses.replace(all_rules()["SL201"], bad=({"a.py": "x = 1\n", "b.py": "y = 2"},))
    assert "```python\n# a.py\nx = 1\n\n# b.py\ny = 2\n```" in page(rule)
