"""The public API is what is listed, and is spoken of where it should be."""

import re

import shardlift
from tests.packaging.building import ROOT
from tests.packaging.public_api import lines, text

LISTED = ROOT / "docs" / "public_api.txt"


def test_nothing_appears_changes_or_goes_unlisted():
    listed, there = LISTED.read_text().splitlines(), text().splitlines()
    news = [f"+ {line}" for line in there if line not in listed]
    news += [f"- {line}" for line in listed if line not in there]
    assert news == [], "python -m tests.packaging.public_api > docs/public_api.txt"
    assert listed == there


def test_the_list_sees_a_new_name_and_a_new_parameter(monkeypatch):
    before = set(lines())
    monkeypatch.setattr(shardlift, "__all__", [*shardlift.__all__, "fresh"])
    monkeypatch.setattr(shardlift, "fresh", lambda a, *, b=1: None, raising=False)
    monkeypatch.setattr(shardlift, "barrier", lambda name: None)
    assert set(lines()) - before == {"shardlift.fresh(a, *, b=…)", "shardlift.barrier(name)"}


def test_every_name_is_documented():
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    pages += (ROOT / "README.md").read_text()
    missing = [name for name in shardlift.__all__ if not re.search(rf"\b{name}\b", pages)]
    assert missing == []


def test_versions_agree():
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == shardlift.__version__
