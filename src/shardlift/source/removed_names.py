"""Names that JAX and flax no longer have: the release that removed each, and its successor.

Names, and removed options of `jax.config`, are listed in `removed_names.toml`; a test checks every
row against the installed JAX.
"""

import functools
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from shardlift.source.model import Version, dotted, version
from shardlift.source.settings import Settings

_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_DELETE = "delete it"
BY_POSITION = "pass it by position"
_INTERNAL = "nothing replaces it: it was a part of how JAX works inside"


@dataclass(frozen=True)
class Removed:
    """One name; `same` says that the successor is the very same thing under another name.

    `gone` is a release of the library that the name begins with.
    """

    name: str
    gone: Version
    successor: str = ""
    same: bool = False
    note: str = ""  # what to do, or why nothing replaces it; how a successor is called

    @property
    def answer(self) -> str:
        """What to write instead; or why nothing replaces it."""
        if not self.successor:
            return self.note
        return f"{'use' if self.same else 'see'} {self.successor}{self.note and f': {self.note}'}"

    @property
    def is_deleted(self) -> bool:
        """Whether calls of it can be deleted: they have nothing left to do."""
        return self.note.startswith(_DELETE)


def _listed(group: str) -> Iterator[Removed]:
    """The rows of one group of the file."""
    for kind in ("renamed", "replaced"):
        for release, pairs in _DATA[group].get(kind, {}).items():
            gone = version(release)
            for name, successor in pairs.items():
                note = _DATA["notes"].get(name, "")
                yield Removed(name, gone, successor, kind == "renamed", note)
    for release, moves in _DATA[group].get("moved", {}).items():
        for modules, listed in moves.items():
            old, new = modules.split()
            for name in listed.split():
                yield Removed(f"{old}.{name}", version(release), f"{new}.{name}", same=True)
    for release, modules in _DATA[group].get("removed", {}).items():
        gone = version(release)
        for module, listed in modules.items():
            for name in (f"{module}.{name}" for name in listed.split()):
                note = _DATA["notes"].get(name, _INTERNAL)
                yield Removed(name, gone, note=note)


def _follow_successors(rows: Iterable[Removed]) -> tuple[Removed, ...]:
    """The rows, and those that follow: no name has a removed name for its successor.

    With `jax.pxla` renamed to `jax.interpreters.pxla`, and `ShardedDeviceArray` of that to
    `jax.Array`, `jax.pxla.ShardedDeviceArray` is `jax.Array`.
    """
    known = {row.name: row for row in ROWS}
    inside: defaultdict[str, list[Removed]] = defaultdict(list)  # the rows of a module
    for row in ROWS:
        module = row.name.rpartition(".")[0]
        while module:
            inside[module].append(row)
            module = module.rpartition(".")[0]
    followed: dict[str, Removed] = {}
    for row in rows:
        then = known.get(row.successor)
        followed[row.name] = _compose(row, then, "") if then is not None else row
        for inner in inside[row.successor] if row.same else ():
            if inner is not row:
                follows = _compose(row, inner, inner.name.removeprefix(row.successor))
                followed.setdefault(follows.name, follows)
    return tuple(followed.values())


def _compose(row: Removed, then: Removed, rest: str) -> Removed:
    same = row.same and then.same
    return Removed(f"{row.name}{rest}", max(row.gone, then.gone), then.successor, same, then.note)


_OF_JAX = ("placement", "trees", "shardings", "pxla", "modules", "numpy", "core", "private")
PLACEMENT, TREES, SHARDINGS, PXLA, MODULES, NUMPY, CORE, PRIVATE, HOSTS, FLAX = (
    tuple(_listed(group)) for group in (*_OF_JAX, "hosts", "flax")
)
ROWS = (*PLACEMENT, *TREES, *SHARDINGS, *PXLA, *MODULES, *NUMPY, *CORE, *PRIVATE)
PXLA, MODULES, NUMPY, CORE = map(_follow_successors, (PXLA, MODULES, NUMPY, CORE))
TABLE = (*PLACEMENT, *TREES, *SHARDINGS, *PXLA, *MODULES, *NUMPY, *CORE, *PRIVATE)
GONE = (*TABLE, *FLAX)
ALL = (*GONE, *HOSTS)  # with those that still work
# By function: the release that removed keywords of it, and what each became.
KEYWORDS: dict[str, tuple[Version, dict[str, str]]] = {
    function: (version(release), renamed)
    for release, functions in _DATA["keywords"].items()
    for function, renamed in functions.items()
}
_WAYS = {"": BY_POSITION, "-": _DELETE}
# The same as rows: `jax.numpy.clip(a_min=)`.
KEYWORD_ROWS = {
    (function, old): Removed(f"{function}({old}=)", gone, note=_WAYS.get(new, f"use {new}"))
    for function, (gone, renamed) in KEYWORDS.items()
    for old, new in renamed.items()
}
SINCE, CALLS_SINCE, OPTIONS = (
    {name: version(release) for release, names in _DATA[key].items() for name in names.split()}
    for key in ("since", "calls_since", "options")
)
WITH_IMPORT, LINEN_OF_JAX, COPIED = (
    frozenset(_DATA["sets"][key].split()) for key in ("with_import", "linen_of_jax", "copied")
)
VALUES: dict[str, str] = _DATA["values"]
UPDATES: dict[str, str] = _DATA["updates"]
# What names of today were called in releases before the one that brought them; they still are.
_OLDER: tuple[tuple[Version, str, str], ...] = (
    ((0, 4, 25), "jax.tree.", "jax.tree_util.tree_"),
    ((0, 4, 1), "jax.Array", "jax.numpy.ndarray"),
)


def can_call(row: Removed, positional: int, keywords: Iterable[str]) -> bool:
    """Whether a call of a removed function, with so many arguments, is one of its successor."""
    if row.name not in _DATA["calls"]:
        return True
    most, listed = _DATA["calls"][row.name]
    return positional <= most and {*keywords} <= {*listed.split()}


class GoneRows(NamedTuple):
    """Rows by their names, and the last parts of these."""

    by_name: dict[str, Removed]
    last: frozenset[str]


@functools.cache
def gone_rows(listed: tuple[str, ...], settings: Settings) -> GoneRows:
    """Of some names those that the JAX or the flax of a project lacks."""
    gone = all_gone(settings)
    by_name = {name: gone[name] for name in listed if name in gone}
    return GoneRows(by_name, frozenset(name.rpartition(".")[2] for name in by_name))


@functools.cache
def all_gone(settings: Settings) -> dict[str, Removed]:
    """All the names that the JAX or the flax of a project lacks."""
    gone: dict[str, Removed] = {}
    for row in ALL:
        here = settings.usable_flax if row.name.startswith("flax.") else settings.target
        if row.gone <= here:
            gone[row.name] = replace(row, successor=spelled_for(row.successor, settings.oldest))
    return gone


def spelled_for(name: str, oldest: Version | None) -> str:
    """A name of today as a project spells it that runs with an old JAX, too."""
    for since, today, older in _OLDER:
        if oldest is not None and oldest < since and name.startswith(today):
            return older + name.removeprefix(today)
    return name


def sentence(row: Removed) -> str:
    """`jax.tree_map was removed in JAX 0.6: use jax.tree.map`."""
    if row in HOSTS:
        return f"{row.name} is an old name of {row.successor}"
    library = "flax" if row.name.startswith("flax.") else "JAX"
    removed = f"was removed in {library} {dotted(row.gone)}"
    when = "does not exist" if row.gone == (0,) else removed
    return f"{row.name} {when}: {row.answer}"


def names(rows: tuple[Removed, ...]) -> tuple[str, ...]:
    """The names of the rows, to look for before a file is parsed."""
    return tuple(row.name for row in rows)
