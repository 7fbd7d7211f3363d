"""The schema and its page say the same."""

import dataclasses
import re
import sys
from pathlib import Path

import pytest

from shardlift.capture import schema
from shardlift.capture.pairs import best_match
from shardlift.capture.schema import Capture, SiteFacts, Untried, WholeBatchTrial
from tests import children

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "capture.md").read_text()


def _fields_on_the_page(title: str) -> list[str]:
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert section, f"docs/capture.md has no section {title}"
    return re.findall(r"^\| `(\w+)` \|", section.group(1), re.MULTILINE)


CLASSES = [part for part in vars(schema).values() if isinstance(part, type)]


@pytest.mark.parametrize(
    "part", [*filter(dataclasses.is_dataclass, CLASSES)], ids=lambda part: part.__name__
)
def test_every_field_is_documented_in_order(part: type) -> None:
    names = [field.name for field in dataclasses.fields(part)]
    assert _fields_on_the_page(part.__name__) == names


def test_the_page_names_the_version() -> None:
    assert f"now {schema.VERSION}." in PAGE


@pytest.mark.slow
def test_reading_and_reporting_need_no_jax() -> None:
    code = (
        "import sys, shardlift.capture.files, shardlift.report.view, shardlift.report.html\n"
        "from shardlift.facts import Capture, CaptureError, read, write\n"
        "import shardlift.cli.report\n"
        "print([m for m in ('jax', 'numpy') if m in sys.modules])"
    )
    done = children.run([sys.executable, "-c", code], check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("trial", "holds"),
    [
        (WholeBatchTrial(difference=1e-7, bound=1e-5), True),
        (WholeBatchTrial(difference=1e-5, bound=1e-5), True),
        (WholeBatchTrial(difference=1e-3, bound=1e-5), False),
        (WholeBatchTrial(Untried.TOO_LARGE), False),
    ],
)
def test_a_trial_holds_if_it_was_made_and_is_near(trial: WholeBatchTrial, holds: bool) -> None:
    assert trial.holds is holds


def test_a_line_of_a_notebook_is_shown_in_its_cell() -> None:
    capture = Capture(cells={"demo.ipynb": ((1, 3), (4, 9))})
    places = [capture.place("demo.ipynb", line) for line in (2, 3, 10)]
    assert places == ["demo.ipynb:2", "demo.ipynb:cell 1:1", "demo.ipynb:cell 4:2"]
    assert capture.place("train.py", 10) == "train.py:10"


@pytest.mark.parametrize(
    ("function", "names", "expected"),
    [
        ("g", (), 1),
        ("<lambda>", ("f", "g"), 1),  # a function of that name comes before a name of another
        ("<lambda>", ("step",), 2),
        ("", ("train",), 0),
        ("<lambda>", (), None),
        ("", (), None),
        ("h", (), None),
    ],
)
def test_a_site_is_found_again_by_its_names(
    function: str, names: tuple[str, ...], expected: int | None
) -> None:
    others = [("<lambda>", ("f", "train")), ("g", ("",)), ("", ("step",))]
    sites = [SiteFacts("train.py", 1, other, names=known) for other, known in others]
    assert best_match(function, names, sites) == expected
