"""Code lenses: what a recorded run says of a site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardlift.capture.files import write
from shardlift.capture.schema import Capture, Distribution, SiteFacts, Times
from shardlift.capture.text_digest import digest
from shardlift.cli.config import Config
from shardlift.cli.lsp.documents import Document
from shardlift.cli.lsp.facts import STALE, Fact, facts_of

TEXT = "import jax\n\n@jax.pmap\ndef step(x):\n    return x\n\ntest = jax.pmap(evaluate)\n"
TIMES = Times(
    call=Distribution(199, 0.3, 0.002, ((330, 199),)),
    dispatch=Distribution(199, 0.2, 0.002, ()),
    moving=Distribution(199, 0.1, 0.002, ()),
)
STEP = SiteFacts("train.py", 3, "step", axis_size=8, calls=200, times=TIMES)
TEST = SiteFacts("train.py", 7, "evaluate", axis_size=8, calls=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    capture = Capture(sites=(STEP, TEST), sources={"train.py": digest(TEXT)})
    write(capture, tmp_path / "run.json")
    return tmp_path


def _facts(folder: Path, text: str = TEXT, name: str = "train.py") -> list[Fact]:
    return facts_of(Document(str(folder / name), (text,)), Config(root=folder), ["*.json"])


def test_one_sentence_per_site(folder: Path) -> None:
    step, test = _facts(folder)
    assert step.line == 3
    assert step.text.startswith("8 devices, ")
    assert step.text.endswith(" ms, 33 % moving data, 200 calls")
    assert test == Fact(7, "8 devices, 1 call")


def test_sites_are_found_again_by_name_after_an_edit(folder: Path) -> None:
    moved = _facts(folder, f"x = 1\n{TEXT}")
    assert [fact.line for fact in moved] == [4, 8]
    assert all(fact.text.endswith(STALE) for fact in moved)
    (renamed,) = _facts(folder, TEXT.replace("step", "train_step"))
    assert renamed.line == 7


def test_a_name_that_is_mapped_twice_is_left_out_after_an_edit(folder: Path) -> None:
    assert [fact.line for fact in _facts(folder, TEXT + "again = jax.pmap(evaluate)\n")] == [3]


def test_other_files_have_no_facts(folder: Path) -> None:
    assert _facts(folder, name="other.py") == []
    assert _facts(folder, "import jax\njax.pmap(\n") == []


def test_the_newest_capture_counts_and_a_broken_one_does_not(folder: Path) -> None:
    (folder / "broken.json").write_text("{")
    newer = Capture(sites=(replace(STEP, calls=5),), sources={"train.py": digest(TEXT)})
    write(newer, folder / "a.json")
    import os

    os.utime(folder / "run.json", (1, 1))
    assert [fact.text.rpartition(", ")[2] for fact in _facts(folder)] == ["5 calls", "1 call"]


def test_a_pattern_of_folders_is_not_followed(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).symlink_to(".")
    config = Config(root=tmp_path)
    document = Document(str(tmp_path / "train.py"), (TEXT,))
    assert facts_of(document, config, ["/**/*", "**/**/*", "*/" * 60 + "x"]) == []
