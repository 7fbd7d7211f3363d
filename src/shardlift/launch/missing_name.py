"""What stopped a program, if that is something which JAX or flax no longer has."""

import importlib.metadata
import re
import sys
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shardlift._legacy.names import MODULES, rows
from shardlift._own_files import installed_package
from shardlift.source.old_libraries import oldest_working
from shardlift.source.removed_names import ALL, Removed, sentence

_LIBRARIES = ("jax", "jaxlib", "flax")
# An error of an import carries the name in its text only (Python 3.11).
_IN_TEXT = re.compile(r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'")


@dataclass(frozen=True)
class MissingName:
    """A name that is not there, and who asked for it."""

    name: str  # jax.experimental.maps.xmap
    library: tuple[str, str] | None = None  # the installed distribution, and its version

    def lines(self, *, patch: bool) -> Iterator[str]:
        """What to tell; ``patch`` says whether removed names were restored."""
        if self.name == "jax":
            yield 'JAX is not installed in this environment: pip install "shardlift[jax]"'
            return
        if self.library is None:
            yield f"the program stopped: {self._removal()}{self._way_out(patch)}"
            return
        name, version = self.library
        yield f"{name} {version} needs {self.name}; {self._removal()}"
        yield _update(name)

    def _removal(self) -> str:
        row = self.row()
        if row is None:
            return f"JAX {_jax_version()} does not have it"
        return sentence(replace(row, name=self.name))

    def row(self) -> Removed | None:
        """The row of the name, of the module that it was in, or of a module that was in it."""
        rows = {row.name: row for row in ALL}
        parts = self.name.split(".")
        names = (".".join(parts[:k]) for k in range(len(parts), 1, -1))
        inside = (name for name in rows if name.startswith(f"{self.name}."))
        return next((rows[name] for name in (*names, *inside) if name in rows), None)

    def _way_out(self, patch: bool) -> str:
        if not patch and self.name in {*MODULES, *(row.name for row in rows())}:
            return "; without --no-patch it is restored"
        row = self.row()
        rewritten = row is not None and (row.same or row.is_deleted)
        return "; `shardlift fix` rewrites it" if rewritten else ""


def find_missing_name(error: BaseException) -> MissingName | None:
    """What an error says is missing; None if it is about something else."""
    while error.__cause__ is not None:
        error = error.__cause__
    name = _missing_name(error)
    is_half_imported = name in sys.modules and name != "jax"  # so it is another error
    if name.partition(".")[0] not in _LIBRARIES or is_half_imported:
        return None
    missing = MissingName(name, _library(error))
    known = name == "jax" or missing.library or missing.row()
    return missing if known else None  # a name that never was: the traceback says it all


def _missing_name(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return error.name or ""
    if isinstance(error, ImportError):
        match = _IN_TEXT.search(str(error))
        return f"{match['module']}.{match['name']}" if match else ""
    if not isinstance(error, AttributeError):
        return ""
    if isinstance(path := getattr(error, "path", None), str):
        return path  # of a placeholder: `_legacy.placeholders`
    if isinstance(error.obj, types.ModuleType):
        return f"{error.obj.__name__}.{error.name}"
    config = getattr(sys.modules.get("jax"), "config", None)
    is_option = config is not None and error.obj is config
    return f"jax.config.{error.name}" if is_option else ""


def _library(error: BaseException) -> tuple[str, str] | None:
    """The installed package whose code raised it, other than JAX."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    # Of the program, none.
    packages = [installed_package(file) for file in files if "<frozen" not in file]
    asked = [package for package in packages if package not in ("jax", "jaxlib", "shardlift")]
    if not asked or not asked[-1]:
        return None
    try:
        (name, *_) = importlib.metadata.packages_distributions()[asked[-1]]
        return name, importlib.metadata.version(name)
    except (KeyError, importlib.metadata.PackageNotFoundError):
        return None


def _update(name: str) -> str:
    working = oldest_working(name, _jax_version())
    if working is None:
        return f"a newer {name} may work: pip install -U {name}"
    return (
        f"{name} {working.version} is the oldest release that works with JAX {_jax_version()} "
        f"(tested {working.tested}): pip install '{name}>={working.version}'"
    )


def _jax_version() -> str:
    return str(getattr(sys.modules.get("jax"), "__version__", ""))
