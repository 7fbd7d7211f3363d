"""Every promise on the pages about security and bad input names a test, and the test exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
PAGES = ("SECURITY.md", "docs/hardening.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_promise_names_a_test(page: str) -> None:
    tables = re.findall(
        r"^\|.* tests \|\n\|[-|]+\|\n((?:\|.*\n)+)", (ROOT / page).read_text(), re.M
    )
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 10
    assert [row for row in rows if not NAMED.search(row.rsplit("|", 2)[1])] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_that_a_page_names_exist(page: str) -> None:
    named = NAMED.findall((ROOT / page).read_text())
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (file := ROOT / "tests" / path).is_file()
        or not re.search(rf"^(?:async )?def {name}\(", file.read_text(), re.M)
    ]
    assert missing == []
