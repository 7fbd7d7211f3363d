"""The formatter, linter, isort and type checker of a project, with its own settings.

Only what the project has settings for is run, and only if it is installed. Without settings of a
linter, ruff looks for errors: its rules F, E4, E7 and E9.
"""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 300.0
Count = Callable[[subprocess.CompletedProcess[str]], int | None]


@dataclass(frozen=True)
class Tool:
    """A tool, how it is called for some files, and how its findings are counted."""

    name: str
    program: str
    arguments: tuple[str, ...]
    count: Count

    @property
    def path(self) -> str | None:
        """The installed program: beside this Python, or on the PATH."""
        return shutil.which(self.program, path=str(Path(sys.executable).parent)) or shutil.which(
            self.program
        )

    def findings(self, folder: Path, files: Sequence[str]) -> int | None:
        """How many findings it has in files of a project; None if it failed."""
        there = [file for file in files if (folder / file).exists()]
        if not there or self.path is None:
            return 0 if self.path else None
        command = [self.path, *self.arguments, *there]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            return None
        return self.count(done)


def _json_entries(done: subprocess.CompletedProcess[str]) -> int | None:
    try:
        return len(json.loads(done.stdout))
    except json.JSONDecodeError:
        return None


def _lines(pattern: str, of: str = "stdout") -> Count:
    def count(done: subprocess.CompletedProcess[str]) -> int | None:
        found = len(re.findall(pattern, getattr(done, of), re.M))
        return found if found or done.returncode in (0, 1) else None

    return count


RUFF = ("check", "--output-format", "json", "--exit-zero", "--no-cache")
TOOLS = {
    "ruff": Tool("ruff", "ruff", RUFF, _json_entries),
    "ruff format": Tool(
        "ruff format", "ruff", ("format", "--check", "--no-cache"), _lines("^Would reformat")
    ),
    "black": Tool("black", "black", ("--check",), _lines("^would reformat", "stderr")),
    "yapf": Tool("yapf", "yapf", ("--diff",), _lines(r"^--- .*\(original\)")),
    "flake8": Tool("flake8", "flake8", (), _lines(r"^\S+:\d+:\d+: ")),
    "isort": Tool("isort", "isort", ("--check-only",), _lines("^ERROR", "stderr")),
    "mypy": Tool("mypy", "mypy", ("--no-error-summary",), _lines(r": error: ")),
}
DEFAULT = Tool(
    "ruff F,E4,E7,E9", "ruff", (*RUFF, "--isolated", "--select", "F,E4,E7,E9"), _json_entries
)
# Where a tool has its settings: a file of its own, a section of another, a pre-commit hook.
_FILES = {
    "ruff": ("ruff.toml", ".ruff.toml"),
    "flake8": (".flake8",),
    "yapf": (".style.yapf",),
    "isort": (".isort.cfg",),
    "mypy": ("mypy.ini", ".mypy.ini"),
}
_SECTIONS = {"ruff": "ruff", "flake8": "flake8", "yapf": "yapf", "isort": "isort", "mypy": "mypy"}
_HOOKS = {
    "ruff": r"id:\s*ruff(-check)?\s*$",
    "ruff format": r"id:\s*ruff-format",
    "black": r"id:\s*black",
    "yapf": r"id:\s*yapf",
    "flake8": r"id:\s*flake8",
    "isort": r"id:\s*isort",
    "mypy": r"id:\s*mypy",
}


def tools_of(folder: Path) -> list[Tool]:
    """The tools that a project has settings for, and ruff in place of a missing linter."""
    pyproject = _toml(folder / "pyproject.toml").get("tool", {})
    sections = {*pyproject, *_sections(folder / "setup.cfg"), *_sections(folder / "tox.ini")}
    hooks_file = folder / ".pre-commit-config.yaml"
    hooks = hooks_file.read_text(errors="replace") if hooks_file.exists() else ""
    names = {name for name, section in _SECTIONS.items() if section in sections}
    names |= {name for name, pattern in _HOOKS.items() if re.search(pattern, hooks, re.M)}
    names |= {n for n, files in _FILES.items() if any((folder / f).exists() for f in files)}
    names |= {"black"} & pyproject.keys()
    names |= {"ruff format"} if "format" in pyproject.get("ruff", {}) else set()
    tools = [tool for name, tool in TOOLS.items() if name in names]
    return tools if names & {"ruff", "flake8"} else [*tools, DEFAULT]


def _toml(path: Path) -> dict[str, dict[str, dict[str, object]]]:
    try:
        return tomllib.loads(path.read_text()) if path.exists() else {}
    except tomllib.TOMLDecodeError:
        return {}


def _sections(path: Path) -> set[str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(path)
    except configparser.Error:
        return set()
    return {name.removeprefix("tool:") for name in parser.sections()}
