"""A project: `[tool.shardlift]`, the JAX that its own metadata asks for, and its files."""

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shardlift.check.engine import RuleSelection
from shardlift.cli.files import Excluded, Passed, find_files, read_bytes, reason
from shardlift.cli.stop import stop
from shardlift.rewrite.floors import SITES
from shardlift.source.model import Version, version
from shardlift.source.project import is_test
from shardlift.source.settings import Settings
from shardlift.source.target import NEWEST, NEWEST_FLAX, Pin, jax_of, newest_flax, oldest_bound

_QUOTED = re.compile(
    r"""['"]((?:jax|jaxlib|flax)(?:\[[^]]*\])?\s*(?:[<>=!~^][^'"]*)?)['"](?!\s*:)"""
)
_LINE = re.compile(r"^[ \t]*((?:jax|flax).*?)[ \t\r\\]*$", re.I | re.M)
# What only describes the project in a setup.py: "jax" may be one of its keywords.
_DESCRIPTION = re.compile(r"\b(?:keywords|classifiers|name)\s*=\s*(?:\[[^]]*\]|'[^']*'|\"[^\"]*\")")
# `- jax=0.3.25`, `- jaxlib=*=*cuda*`, or `- flax==0.6.0` below `- pip:`, in a file of conda.
_OF_CONDA = re.compile(
    r"""^\s*-\s*['"]?(?:[\w-]+::)?((?:jax|jaxlib|flax)\b(?![\w.-])[^'"#\n]*)""", re.I | re.M
)
_ONE_EQUAL_SIGN = re.compile(r"^(\w+)\s*=\s*(\d[\d.]*\d)(?:\.?\*)?(?:=.*)?$")
_CONDA_FOLDERS = (".", "conda", "docker", "env", "envs", "environments", "scripts")
# The JAX that a page tells people to install.
_TOLD = re.compile(r"""(?<=[\s'"`])(jax(?:lib)?(?:\[[\w,-]*\])?[=~<>]=?\d[\d.,<>=]*)""")
_KEYS = {"select", "ignore", "per-file-ignores", "target-jax", "exclude"}


class ConfigError(ValueError):
    """The configuration cannot be used; the message says what is wrong with it."""


@dataclass(frozen=True)
class Config:
    """What a project says about itself."""

    rules: RuleSelection = RuleSelection()
    target: Version | None = None
    pins: tuple[Pin, ...] = ()
    path: Path | None = None
    root: Path = Path()  # the folder of pyproject.toml, or else of the repository
    exclude: tuple[str, ...] = ()  # names, and paths from the root on

    def excluded(self, given: Sequence[str] = ()) -> list[Excluded]:
        """What is left out: by the settings, and by patterns that a command was given."""
        return [Excluded(self.root, self.exclude), Excluded(Path(), given)]

    def settings(self, target: str | None = None) -> Settings:
        """What to read the project for; `target` is the version that a command was given."""
        asked = version(target) if target else self.target
        flax = newest_flax([pin.text for pin in self.pins])
        told = (pin for pin in told_pins(self.root) if ">" not in pin.text)
        oldest = oldest_bound(self.pins) or oldest_bound(told)
        oldest, installed = oldest or jax_of(flax), tuple(_packages(self.pins)) or ("",)
        caps = [pin for pin in self.pins if pin.caps_below(SITES) and not pin.group]
        cap = f"{os.path.relpath(caps[0].path)} ({caps[0].text})" if caps else ""
        return Settings(asked or NEWEST, flax or NEWEST_FLAX, oldest, installed, cap)


def find_config(start: Path) -> Config:
    """The configuration of the project that a path belongs to: the nearest pyproject.toml.

    Requirements come from the nearest folder that says which JAX or flax it needs: a
    project may be a folder of a larger repository, or an unpacked archive.
    """
    start = start.resolve()
    pins: list[Pin] = []
    for folder in [start, *start.parents] if start.is_dir() else start.parents:
        if (folder / "pyproject.toml").is_file():
            config = read_config(folder / "pyproject.toml")
            return replace(config, pins=tuple(pins)) if pins else config
        pins = pins or _requirement_files(folder)
        if (folder / ".git").exists():
            return Config(root=folder, pins=tuple(pins))
    return Config(pins=tuple(pins))


def _pins_below(start: Path, files: Sequence[str]) -> tuple[Pin, ...]:
    """The requirements of the one folder below that says which JAX or flax its files need."""
    folders = {folder for path in files for folder in Path(path).parents if start in folder.parents}
    found = [pins for folder in sorted(folders) if (pins := tuple(_requirement_files(folder)))]
    return found[0] if len(found) == 1 else ()


def _packages(pins: Sequence[Pin]) -> Iterator[str]:
    """The folders of what is installed with its requirements, if some of JAX are stated for it."""
    stated = {Path(pin.path) for pin in pins if pin.text.lower().startswith("jax")}
    for path in stated:
        is_built = path.name == "pyproject.toml" and "build-system" in _text(path)
        if is_built or path.name in ("setup.py", "setup.cfg"):
            for folder in (path.parent, path.parent / "src"):
                found = [init.parent.resolve() for init in folder.glob("*/__init__.py")]
                yield from (f"{one}{os.sep}" for one in found if not is_test(one.name))


def read_config(path: Path) -> Config:
    """Read one pyproject.toml."""
    try:
        document = tomllib.loads(read_bytes(str(path)).decode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}") from error
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except ValueError as error:  # not TOML, not UTF-8, a number of thousands of digits
        raise ConfigError(f"{path}: {error}") from error
    table = _table(document, "tool").get("shardlift", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: tool.shardlift is a table, not {table!r}")
    unknown = set(table) - _KEYS
    if unknown:
        known = ", ".join(sorted(_KEYS))
        raise ConfigError(f"{path}: [tool.shardlift] has no {', '.join(sorted(unknown))} ({known})")
    ignores = table.get("per-file-ignores", {})
    if not isinstance(ignores, dict):
        raise ConfigError(f"{path}: per-file-ignores is a table of patterns")
    target = table.get("target-jax")
    try:
        number = version(str(target)) if target is not None else None
    except ValueError as error:
        raise ConfigError(f"{path}: target-jax: {error}") from error
    declared = _requirements(path, document)
    rules = RuleSelection(
        _strings(path, "select", table.get("select", [])) or ("SL",),
        _strings(path, "ignore", table.get("ignore", [])),
        {name: _strings(path, f"per-file-ignores of {name}", ignores[name]) for name in ignores},
    )
    return Config(
        rules,
        target=number,
        path=path,
        root=path.parent,
        pins=(*declared, *_requirement_files(path.parent)),
        exclude=_strings(path, "exclude", table.get("exclude", [])),
    )


def _strings(path: Path, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{path}: {key} is a list of texts, not {value!r}")
    return tuple(value)


def _requirements(path: Path, document: dict[str, Any]) -> Iterator[Pin]:
    """The dependencies that a pyproject.toml declares; malformed ones are left to other tools."""
    text, end = _text(path), 0
    project = _table(document, "project")
    groups = {"": project.get("dependencies"), **_table(project, "optional-dependencies")}
    for extra, group in groups.items():
        lines = [str(line) for line in group] if isinstance(group, list) else []
        pinned = [line for line in lines if "==" in line]
        for line in lines:
            quoted = re.compile(rf"""(?<=['"]){re.escape(line)}(?=['"](?!\s*=))""")
            place = quoted.search(text, end) or quoted.search(text)
            end = place.end() if place else end
            named = extra and (line in pinned or len(pinned) > 1)
            start = place.start() if place else -1
            yield Pin(str(path), line, start, group=f"the extra '{extra}'" if named else "")
    yield from _of_poetry(path, text, document)


def _of_poetry(path: Path, text: str, document: dict[str, Any]) -> Iterator[Pin]:
    """The same of poetry's tables, with standard version constraints."""
    poetry = _table(_table(document, "tool"), "poetry")
    groups = _table(poetry, "group")
    tables = [("", "", poetry), ("dev-", "dev", {"dependencies": poetry.get("dev-dependencies")})]
    tables += [(f"group.{name}.", name, _table(groups, name)) for name in groups]
    for before, group, table in tables:
        header = max(text.find(f"[tool.poetry.{before}dependencies]"), 0)
        for name in ("jax", "jaxlib", "flax"):
            entry = _table(table, "dependencies").get(name)
            wanted = entry.get("version") if isinstance(entry, dict) else entry
            if isinstance(wanted, str):
                line = re.compile(rf"""^\s*{name}\s*=.*?['"](?={re.escape(wanted)}['"])""", re.M)
                place = line.search(text, header)
                requirement = f"{name}{_from_poetry(wanted)}"
                named = f"the group '{group}'" if group else ""
                yield Pin(str(path), requirement, place.end() if place else -1, wanted, named)


def _from_poetry(constraint: str) -> str:
    """A version constraint of poetry as a standard one: `^0.4.30` is `~=0.4.30`."""
    constraint = re.sub(r"^[\^~](0\.\d+)$", r"~=\1.0", constraint.strip())
    constraint = re.sub(r"^[\^~](?=\d)", "~=", constraint)
    return re.sub(r"^(?=\d)", "==", constraint).removeprefix("*")


def told_pins(root: Path) -> Iterator[Pin]:
    """The requirements that the page about a project tells people to install."""
    for page in sorted(root.glob("[Rr][Ee][Aa][Dd][Mm][Ee].md")):
        for match in _TOLD.finditer(_text(page)):
            yield Pin(os.path.relpath(page), match[1], match.start(1))


def _table(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _requirement_files(folder: Path) -> list[Pin]:
    """Lines of requirements files and of setup.cfg, and the strings about jax in setup.py."""
    listed = [
        *sorted(folder.glob("*requirements*.txt")),
        *sorted(folder.glob("requirements/*.txt")),
    ]
    pins = [
        Pin(str(path), match[1], match.start(1))
        for path in (*listed, folder / "setup.cfg")
        for match in _LINE.finditer(_text(path))
    ]
    setup = folder / "setup.py"
    text = _DESCRIPTION.sub(lambda match: " " * len(match[0]), _text(setup))
    pins += [Pin(str(setup), match[1], match.start(1)) for match in _QUOTED.finditer(text)]
    return [*pins, *_of_conda(folder)]


def _of_conda(folder: Path) -> Iterator[Pin]:
    """The lines of conda's environment files, as pip writes them."""
    folders = [folder / name for name in _CONDA_FOLDERS]
    for path in (p for inner in folders for p in sorted(inner.glob("*.y*ml")) if p.is_file()):
        text = _text(path)
        if re.search(r"^dependencies:", text, re.MULTILINE):
            for match in _OF_CONDA.finditer(text):
                spec = match[1].strip().partition("=*")[0]
                yield Pin(str(path), _ONE_EQUAL_SIGN.sub(r"\1==\2", spec), match.start(1))


def _text(path: Path) -> str:
    try:
        return read_bytes(str(path)).decode(errors="replace")
    except OSError:
        return ""


@dataclass(frozen=True)
class ProjectFiles:
    """What a command looks at."""

    config: Config
    settings: Settings
    files: list[str]
    passed: Passed


def open_project(
    paths: tuple[str, ...], target: str | None = None, exclude: Sequence[str] = ()
) -> ProjectFiles:
    """The configuration and the files; stops the command if there are none, or it is wrong."""
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        stop(f"no such file or folder: {', '.join(missing)}")
    try:
        config = find_config(Path(paths[0]))
        settings = config.settings(target)
    except (ConfigError, ValueError) as error:
        stop(str(error))
    passed = Passed()
    files = list(find_files(paths, passed, excluded=config.excluded(exclude)))
    if not config.pins:
        config = replace(config, pins=_pins_below(Path(paths[0]), files))
        settings = config.settings(target)
    if not files and not passed.failed:
        stop(f"no .py or .ipynb file under {', '.join(paths)}")
    return ProjectFiles(config, settings, files, passed)
