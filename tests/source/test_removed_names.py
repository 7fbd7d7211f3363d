"""The table of removed names against the JAX that is installed here."""

from __future__ import annotations

import importlib
import warnings

import pytest

from shardlift.check.rules.removed_option import GONE
from shardlift.source.model import version
from shardlift.source.removed_names import TABLE, Removed

jax = pytest.importorskip("jax")
HERE = version(jax.__version__)


def _is_there(name: str) -> bool:
    parts = name.split(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:count]))
            except ImportError:
                continue
            try:
                for part in parts[count:]:
                    found = getattr(found, part)
            except AttributeError:
                return False
            return True
    return False


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_name_is_gone_from_its_release_on_and_there_before(row: Removed) -> None:
    assert _is_there(row.name) == (row.gone > HERE)


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.successor and row.gone <= HERE], ids=lambda row: row.name
)
def test_the_successor_is_there(row: Removed) -> None:
    assert _is_there(row.successor)


@pytest.mark.parametrize("option", GONE)
def test_an_option_is_gone_from_its_release_on_and_there_before(option: str) -> None:
    assert hasattr(jax.config, option) == (GONE[option] > HERE)


def test_names_are_listed_once() -> None:
    names = [row.name for row in TABLE]
    assert len(names) == len(set(names))
