"""Before and after compute the same, bit by bit; what a person would write, up to rounding."""

import json
import re
from pathlib import Path

import pytest

from .recipes import EXAMPLES, RECIPES, Recipe, needed, run

pytestmark = pytest.mark.slow
VERIFY = ("-m", "shardlift", "verify", "--verbose", "--format", "json")
LAUNCH = ("-m", "shardlift", "run", "--quiet", "--processes", "2", "--devices", "4")


def recipes(*leave_out: str) -> pytest.MarkDecorator:
    chosen = [recipe for name, recipe in RECIPES.items() if name not in leave_out]
    listed = [
        pytest.param(one, marks=[*needed(*one.needs), *_if_exhaustive(one)], id=one.name)
        for one in chosen
    ]
    return pytest.mark.parametrize("recipe", listed)


def _if_exhaustive(recipe: Recipe) -> list[pytest.MarkDecorator]:
    """Its checkpoints are also read and written by a test of their own."""
    return [pytest.mark.exhaustive] if recipe.name in ("checkpoints", "notebook") else []


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"-?\d+\.\d+", text)]


@recipes("processes")
def test_the_same_before_and_after(recipe: Recipe) -> None:
    both = [recipe.folder / f"{word}{recipe.suffix}" for word in ("before", "after")]
    done = run(*VERIFY, "--collectives", str(recipe.taps), *both)
    assert done.returncode == 0, done.stdout + done.stderr
    called = [site for site in json.loads(done.stdout)["sites"] if site["calls"]]
    assert {site["verdict"] for site in called} == {"identical"}
    printed = [line for line in done.stderr.splitlines() if not line.startswith("shardlift ")]
    half = len(printed) // 2
    assert printed[:half] == printed[half:]
    recipe.check("\n".join(printed[:half]))
    if recipe.name == "equinox":
        assert run(recipe.folder / "filter_pmap.py").stdout.splitlines() == printed[:half]
    idiomatic = recipe.folder / "idiomatic.py"
    if idiomatic.exists():
        learned = run(idiomatic)
        assert learned.returncode == 0, learned.stderr
        recipe.check(learned.stdout)
        if recipe.exact:
            wanted = numbers("\n".join(printed[:half]))
            assert numbers(learned.stdout) == pytest.approx(wanted, rel=1e-3, abs=1e-5)


def test_in_two_processes() -> None:
    folder = RECIPES["processes"].folder
    before = run(*LAUNCH, folder / "before.py")
    after, idiomatic = (
        run(*LAUNCH, "--no-patch", folder / name) for name in ("after.py", "idiomatic.py")
    )
    # What the programs print, by their first process: Gloo's own lines come when they like.
    printed = [
        re.findall(r"^\[0\] (?:step|\d+ devices).*$", done.stdout, re.MULTILINE)
        for done in (before, after, idiomatic)
    ]
    assert len(printed[0]) == 6, before.stdout
    assert printed[0][-1] == "[0] 8 devices in 2 processes agree", before.stderr
    assert printed[1] == printed[0], after.stderr
    assert numbers(str(printed[2])) == pytest.approx(numbers(str(printed[0])), rel=1e-3)
    RECIPES["processes"].check("\n".join(printed[0]))


@pytest.mark.exhaustive
def test_checkpoints_go_there_and_back(tmp_path: Path) -> None:
    programs = [EXAMPLES / "checkpoints" / name for name in ("after.py", "idiomatic.py")]
    for writer, reader, *options in (programs, [*programs[::-1], "--stacked"]):
        folder = tmp_path / writer.stem
        folder.mkdir()
        wrote = run(writer, folder, *options)
        went_on = run(reader, folder)
        assert went_on.stdout.splitlines()[0] == "resumed", wrote.stderr + went_on.stderr
        last = numbers(wrote.stdout)[-2:]
        assert numbers(went_on.stdout) == pytest.approx(last, rel=1e-3)
