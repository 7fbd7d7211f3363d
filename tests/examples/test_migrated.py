"""What is called "after" is what `migrate` writes from what is called "before", to the letter."""

import os
import re
from pathlib import Path

import pytest

from shardlift.rewrite.engine import migrate
from shardlift.rewrite.results import Migration

from .recipes import EXAMPLES, RECIPES, Recipe

PAGES = EXAMPLES.parent / "docs" / "recipes"


def migrated(path: Path) -> Migration:
    return migrate([str(path)], lambda name: Path(name).read_bytes(), os.path.exists)


def test_every_folder_is_a_recipe() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(RECIPES)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_after_is_what_migrate_writes(recipe: Recipe) -> None:
    before, after = (recipe.folder / f"{word}{recipe.suffix}" for word in ("before", "after"))
    (file,) = migrated(before).files
    assert file.after == after.read_text("utf-8")
    if recipe.keeps_pmap:
        assert "it keeps jax.pmap" in file.refused[0].reason
    else:
        assert file.refused == ()
        assert "pmap" not in file.after
    assert not any(again.changed for again in migrated(after).files)


def test_what_equinox_maps_by_itself_is_left_alone_and_said() -> None:
    (file,) = migrated(EXAMPLES / "equinox" / "filter_pmap.py").files
    assert not file.changed
    assert "eqx.filter_jit" in file.refused[0].reason


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_a_page_shows_every_program(recipe: Recipe) -> None:
    page = PAGES / f"{recipe.name}.md"
    named = re.findall(r"^(?:```{literalinclude}|:diff:) (\S+)", page.read_text(), re.MULTILINE)
    shown = {(PAGES / path).resolve() for path in named}
    assert shown == {path for path in recipe.folder.iterdir() if path.suffix == ".py"}
