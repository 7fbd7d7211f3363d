"""The table of removed names against the JAX that is installed here."""

import contextlib
import functools
import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shardlift.check.renames import importable
from shardlift.source.model import version
from shardlift.source.removed_names import (
    ALL,
    FLAX,
    KEYWORDS,
    OPTIONS,
    ROWS,
    TABLE,
    Removed,
    can_call,
)

jax = pytest.importorskip("jax")
HERE = version(jax.__version__)


def _find(name: str) -> Any:
    """What JAX has by a name; None if it has no such thing."""
    parts = name.split(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:count]))
            except ImportError:
                continue
            return functools.reduce(
                lambda held, part: getattr(held, part, None), parts[count:], found
            )
    return None


def _is_there(name: str) -> bool:
    return _find(name) is not None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_name_is_gone_from_its_release_on_and_there_before(row: Removed) -> None:
    assert _is_there(row.name) == (row.gone > HERE)


@pytest.mark.parametrize("function", KEYWORDS)
def test_a_keyword_is_gone_and_its_successor_is_there(function: str) -> None:
    gone, renamed = KEYWORDS[function]
    there = inspect.signature(_find(function)).parameters
    later = {new for new in renamed.values() if new.isidentifier()}
    assert not later - there.keys() or "kwargs" in there
    if gone <= HERE:
        assert not {old for old in renamed if old != "a"} & there.keys()


@pytest.mark.parametrize("row", [row for row in TABLE if row not in ROWS], ids=lambda row: row.name)
def test_a_name_that_follows_from_others_is_gone(row: Removed) -> None:
    assert not _is_there(row.name)


@pytest.mark.parametrize("row", [row for row in TABLE if row.successor], ids=lambda row: row.name)
def test_the_successor_is_there_on_every_line_of_jax(row: Removed) -> None:
    """Also before the name is removed: `migrate` writes no name that a supported JAX lacks."""
    assert _is_there(row.successor)


@pytest.mark.filterwarnings("ignore:jax.interpreters.pxla.thread_resources:DeprecationWarning")
@pytest.mark.parametrize("row", [row for row in TABLE if row.same], ids=lambda row: row.name)
def test_what_migrate_imports_is_there(row: Removed) -> None:
    module, name = importable(row)
    assert hasattr(importlib.import_module(module), name) or _is_there(f"{module}.{name}")


# Parameters that have another name in the successor, and the same meaning.
SAME = {("fun", "f"), ("x", "dtype"), ("ar1", "element"), ("ar2", "test_elements"), ("x", "a")}
SAME |= {("xs", "_"), ("layout", "major_to_minor"), ("jaxpr", "constvars"), ("consts", "invars")}
OLD = Path(__file__).with_name("old_signatures.txt").read_text().splitlines()[1:]


@pytest.mark.parametrize("line", OLD)
def test_a_successor_can_be_called_as_migrate_writes_it(line: str) -> None:
    """In every way in which the removed function could be called, except where a call stays."""
    name, _, parameters = line.rstrip(")").partition("(")
    (row,) = [row for row in ALL if row.name == name]
    try:
        new = inspect.signature(_find(row.successor)).parameters
    except (TypeError, ValueError):
        pytest.skip("the successor has no signature")
    old = inspect.signature(eval(f"lambda {parameters}: 0")).parameters
    by_position, by_name = _ways(new)
    wide = {p.kind for p in new.values()}
    for number, one in enumerate(_ways(old)[0], start=1):
        if can_call(row, number, ()) and inspect.Parameter.VAR_POSITIONAL not in wide:
            assert number <= len(by_position), f"{row.successor} takes {by_position}"
            now = by_position[number - 1]
            assert one == now or (one, now) in SAME
    for one in _ways(old)[1]:
        if can_call(row, 0, [one]) and inspect.Parameter.VAR_KEYWORD not in wide:
            assert one in by_name


def _ways(parameters: Mapping[str, inspect.Parameter]) -> tuple[list[str], list[str]]:
    """The names of the parameters that can be given by position, and by name alone."""
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    alone = inspect.Parameter.KEYWORD_ONLY
    return [n for n, k in kinds.items() if k in position], [
        n for n, k in kinds.items() if k is alone
    ]


def test_names_are_listed_once_and_none_is_a_successor() -> None:
    names = [row.name for row in ALL]
    assert len(names) == len(set(names))
    assert not [row for row in ALL if row.successor in names]


@pytest.mark.parametrize("row", FLAX, ids=lambda row: row.name)
def test_a_name_of_flax_is_gone(row: Removed) -> None:
    flax = pytest.importorskip("flax")
    assert _is_there(row.name) == (row.gone > version(flax.__version__))
    assert not row.successor or _is_there(row.successor)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_gone_from_its_release_on_and_there_before(option: str) -> None:
    assert hasattr(jax.config, option) == (OPTIONS[option] > HERE)


def _public_modules(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for found in pkgutil.iter_modules(getattr(package, "__path__", ())):
        if not found.name.startswith("_") and found.name not in ("jax2tf", "pallas", "mosaic"):
            with contextlib.suppress(ImportError):  # it needs another library
                yield from _public_modules(
                    importlib.import_module(f"{package.__name__}.{found.name}")
                )


@pytest.mark.filterwarnings("ignore")
def test_the_table_has_every_name_that_jax_itself_says_it_removed() -> None:
    """Modules of JAX keep a message for names that they removed not long ago."""
    known = {row.name for row in TABLE}
    asked = 0
    for module in _public_modules(jax):
        said = vars(module).get("_deprecations", {})
        for name in (n for n in (said if isinstance(said, dict) else ()) if n[0] != "_"):
            path = f"{module.__name__}.{name}"
            if not _is_there(path):
                asked += 1
                assert path in known or module.__name__ in known, path
    assert asked


@pytest.mark.parametrize("row", [row for row in ALL if not row.successor], ids=lambda row: row.name)
def test_a_name_without_successor_says_what_to_do_or_why(row: Removed) -> None:
    verbs = ("delete it", "nothing replaces it: ", "write ", "use ", "place ", "set ", "read ")
    assert row.note.startswith((*verbs, "copy "))
