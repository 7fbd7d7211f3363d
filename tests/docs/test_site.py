"""What the site is made of is complete: rules, commands, the library."""

import importlib
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

import shardlift
import shardlift._replication
import shardlift.arrays
import shardlift.facts
from shardlift.check.rules import all_rules
from shardlift.cli import COMMANDS
from tests import children
from tests.docs.pages import DOCS, ROOT, all_pages

REFERENCE = "\n".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))


def _generator(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(DOCS / "_ext"), *sys.path])
    return importlib.import_module(name)


def test_every_rule_has_a_page_with_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _generator("rule_pages", monkeypatch).pages()
    assert set(made) == {"index.md", *(f"{code}.md" for code in all_rules())}
    assert all(f"| [{code}]({code}.md) |" in made["index.md"] for code in all_rules())
    assert "(../errors/gradient_too_large.md)" in made["SL501.md"]


def test_every_command_has_a_page_with_its_options_and_a_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = _generator("command_pages", monkeypatch).pages()
    assert set(made) == {"index.md", *(f"{name}.md" for name in COMMANDS)}
    assert "| `--devices INTEGER RANGE` |" in made["run.md"]
    assert "```sh\nshardlift check " in made["check.md"]
    assert set(_generator("terminal_pictures", monkeypatch).SESSIONS) == set(COMMANDS)
    for name in COMMANDS:
        assert f"](../_static/terminal/{name}.svg)" in made[f"{name}.md"]
        text = (DOCS / "_static" / "terminal" / f"{name}.svg").read_text()
        assert not re.findall(r"url\((?!#)|href|@import|/tmp/|/home/|/root/", text)


def test_a_picture_shows_what_was_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = _generator("terminal_pictures", monkeypatch).picture
    svg = picture("shardlift check", "\x1b[31mSL201\x1b[0m <old>\n" + "more\n" * 60)
    texts = "".join(ET.fromstring(svg).itertext()).replace("\N{NO-BREAK SPACE}", " ")
    assert "$ shardlift check" in texts
    assert "SL201 <old>" in texts
    assert "19 more lines" in texts


@pytest.mark.parametrize(
    "module", [shardlift, shardlift.arrays, shardlift.facts, shardlift._replication], ids=str
)
def test_every_public_name_is_in_the_reference(module: ModuleType) -> None:
    for name in set(module.__all__) - {"__version__"}:
        pattern = rf"auto(function|class):: shardlift\.(\w+\.)?{name}\n"
        assert re.search(pattern, REFERENCE), name


def test_every_page_is_in_a_toctree() -> None:
    listed = set()
    for page in all_pages()[1:]:
        for tree in re.findall(r"```{toctree}\n(.*?)```", page.read_text(), re.DOTALL):
            for line in tree.splitlines():
                entry = re.sub(r".* <(.*)>", r"\1", line.strip())
                if entry and not entry.startswith(":"):
                    found = page.parent.glob(f"{entry}.md")
                    listed |= {path.resolve() for path in found}
    assert {page.resolve() for page in all_pages()[1:]} - listed == {(DOCS / "index.md").resolve()}


@pytest.mark.exhaustive
def test_no_page_loads_anything_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", str(DOCS), str(tmp_path)]
    children.run(command, cwd=ROOT, check=True)
    loaded = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"((?:https?:)?//[^\"]*)\"")
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 50
    assert [page for page in pages if loaded.search(page.read_text())] == []
