"""A page of the error catalogue has all its parts, is listed, and the rule it names finds it."""

import re
from itertools import takewhile
from pathlib import Path

import pytest

from shardlift.check.engine import RuleSelection, check_texts
from shardlift.check.rules import all_rules
from tests.docs.pages import DOCS, SHOWN, blocks_of

PAGES = sorted(path for path in (DOCS / "errors").glob("*.md") if path.stem != "index")
INDEX = (DOCS / "errors" / "index.md").read_text()


def _program(page: Path) -> str:
    """What leads to the error."""
    blocks = takewhile(lambda block: block.language not in SHOWN, blocks_of(page))
    return "\n".join(block.text for block in blocks if block.language == "python")


def _found(page: Path) -> set[str]:
    (report,) = check_texts({"program.py": _program(page)}, RuleSelection()).values()
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_all_its_parts(page: Path) -> None:
    text = page.read_text()
    title = text.split("\n", 1)[0].removeprefix("# ")
    assert re.match(r"\n\nOn JAX 0\.\d+ and 0\.\d+[,.]", text.removeprefix(f"# {title}"))
    assert f"- [{title}]({page.name})" in INDEX
    assert f"\n{page.stem} <{page.stem}>\n" in INDEX
    program, why, fix = re.split(r"^## (?:Why|Fix)\n", text, flags=re.MULTILINE)
    assert re.search(r"^```(pytb|output)\n", program, re.MULTILINE)
    assert why.strip()
    assert "```python" in fix
    assert "shardlift" in fix or "SL" in fix

    assert len(PAGES) >= 50
    named = set(re.findall(r"\[(SL\d{3})\]\(\.\./rules/\1\.md\)", text))
    assert named <= set(all_rules())
    if by := re.search(r"^Found by \[(SL\d{3})\]", text, re.MULTILINE):
        assert by[1] in _found(page)
    elif re.search(r"^Not found by `shardlift check`", text, re.MULTILINE):
        # A pmap is a pmap site; nothing else is said of the program.
        assert _found(page) <= {"SL201", "SL701", "SL710"}
    else:
        assert "`shardlift check`" in text or "SL" in text
