"""The table of restored names: each with the release that removed it, and its successor.

Most rows come from the linter (`shardlift.source.removed_names`), and a test checks them against
the installed JAX. `names.toml` adds those where the linter only describes the successor and this
package has an adapter for it, and the modules that JAX removed. Private paths are text there, not
in `_compat`, which imports JAX: a program chooses when JAX is imported.
"""

import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shardlift.source.model import Version, version
from shardlift.source.removed_names import KEYWORDS as REMOVED_KEYWORDS
from shardlift.source.removed_names import ROWS, Removed

__all__ = ["KEYWORDS", "Removed", "Version", "resolve", "rows", "version"]

_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_LONG_AGO: Version = (0, 4)  # of a name that the linter's table has not got


def _adapted() -> Iterator[tuple[str, str]]:
    """Name, replacement. The release that removed it is in the linter's table, or in MODULES."""
    yield from _DATA["moved"].items()
    for file, modules in _DATA["ours"].items():
        for module, names in modules.items():
            for name in names.split():
                yield f"{module}.{name}", f"shardlift._legacy.{file}.{name}"
    types = dict(_DATA["runtime"])
    for module in types.pop("modules").split():
        yield from ((f"{module}.{name}", path) for name, path in types.items())


_ADAPTED = dict(_adapted())
MODULES: dict[str, tuple[Version, str]] = {
    name: (version(release), home)
    for release, homes in _DATA["modules"].items()
    for name, home in homes.items()
}
HOMES: dict[str, str] = _DATA["homes"]
TWINS: dict[str, str] = _DATA["twins"]
KEYWORDS = {function: dict(renamed) for function, (_, renamed) in REMOVED_KEYWORDS.items()}
CHANGED: dict[str, Version] = {name: version(text) for name, text in _DATA["changed"].items()}
RANDOM_KEYS = ("jax.random.PRNGKey", "jax.random.key")
OPTIONS: dict[str, Any] = {
    **dict.fromkeys(_DATA["options"]["on"].split(), True),
    **dict.fromkeys(_DATA["options"]["off"].split(), False),
    **_DATA["options"]["others"],
}


def rows() -> Iterator[Removed]:
    """Every restored name with the dotted path of its replacement."""
    for row in ROWS:
        if row.name in _ADAPTED:
            yield Removed(row.name, row.gone, _ADAPTED[row.name])
        elif row.same and row.name not in MODULES and row.gone != (0,):
            yield row
    in_removed_modules = _ADAPTED.keys() - {row.name for row in ROWS}
    for name in sorted(in_removed_modules):
        home = MODULES.get(name.rpartition(".")[0])
        yield Removed(name, home[0] if home else _LONG_AGO, _ADAPTED[name])
    for name, successor in _DATA["numpy"].items():
        yield Removed(f"numpy.{name}", _LONG_AGO, successor)


def resolve(path: str) -> Any:
    """The object at a dotted path; imports modules as needed.

    >>> resolve("collections.abc.Iterable").__name__
    'Iterable'
    """
    base, _, name = path.rpartition(".")
    if not base:
        return importlib.import_module(path)
    # The attribute first: jax.config is an object in JAX, and a restored module here.
    owner = resolve(base)
    return getattr(owner, name) if hasattr(owner, name) else importlib.import_module(path)
