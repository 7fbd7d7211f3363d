"""Whether a program is a job of several processes, and the line that says so.

Joining a job, splitting data by the number of the process, or counting processes make it one.
`if jax.process_index() == 0: print(…)` and messages do not: they are right in one process, too.
`assert jax.process_count() == 1` makes it a program of one process.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from shardlift.source.scopes import FUNCTIONS

if TYPE_CHECKING:
    from shardlift.source.file import File

_INDEX = frozenset({"process_index", "host_id"})
_COUNT = frozenset({"process_count", "host_count"})
_SIGNS = re.compile(rf"{'|'.join(sorted(_INDEX | _COUNT))}|distributed")
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+)?import[ \t]+(\([^)]*\)|[^\n]*)", re.M)
_MESSAGES = re.compile(r"(^|\.)(print|log|debug|info|warning|warn|error|exception|write|format)$")
# Expressions that a question may be a part of.
_PARTS = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.JoinedStr, ast.FormattedValue)
# Helpers that `migrate` writes ask for processes in any program.
WRITTEN_BY_MIGRATE = frozenset(
    {
        "_device_mesh",
        "host_local_arrays",
        "mesh_of_devices",
        "spmd_map",
    }
)


@dataclass(frozen=True)
class Evidence:
    """A line that says how many processes run its program."""

    path: str
    line: int
    text: str
    many: bool


def may_be_evidence(text: str) -> bool:
    """Whether a text is worth parsing for the question."""
    return "jax" in text and _SIGNS.search(text) is not None


def evidence_in(file: File) -> Evidence | None:
    """The first line of a file that decides; one that asserts a single process comes first."""
    found: list[Evidence] = []
    for call in file.index.nodes(ast.Call):
        many = _says(file, call, file.called(call) or "")
        if many is not None and not _is_in_helper(file, call):
            line = file.span(call).line
            found.append(Evidence(file.path, line, file.brief(call), many))
    return min(found, key=lambda one: (one.many, one.line), default=None)


def imported_modules(text: str) -> set[tuple[str, ...]]:
    """The dotted names that a text may import, each with what is taken from it; dots in front."""
    found: set[tuple[str, ...]] = set()
    for module, names in _IMPORT.findall(text):
        for name in re.findall(r"[\w.]+", names):
            parts = [part for part in f"{module}.{name}".split(".") if part]
            found.add(tuple(parts))
            found.add(tuple(parts[:-1]))
    return found - {()}


def _says(file: File, call: ast.Call, name: str) -> bool | None:
    """Whether a call shows a program of many processes, or of one; None if neither."""
    module, _, last = name.rpartition(".")
    if module == "jax.distributed":
        return True if last == "initialize" else None
    if last not in _INDEX | _COUNT or module not in ("jax", "jax.lib.xla_bridge"):
        return None
    for child, parent in _upwards(file, call):
        if isinstance(parent, ast.Assert):
            return False if last in _COUNT else None
        if isinstance(parent, ast.Call) and child is not parent.func and _is_message(parent):
            return None
        if isinstance(parent, _PARTS):
            continue
        if isinstance(parent, ast.If) and child is parent.test:
            if last in _INDEX:
                return None
            return not isinstance(parent.body[-1], ast.Raise)
        if isinstance(parent, ast.IfExp) and child is parent.test and last in _INDEX:
            return None
        break
    is_compared = isinstance(file.index.parents.get(call), ast.Compare)
    # `is_main = jax.process_index() == 0`: a flag for messages.
    return None if last in _INDEX and is_compared else True


def _upwards(file: File, node: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    above = [node, *file.index.ancestors(node)]
    inside = next((k for k, one in enumerate(above[1:], 1) if isinstance(one, FUNCTIONS)), None)
    above = above[:inside]
    return list(pairwise(above))


def _is_message(call: ast.Call) -> bool:
    function = call.func
    name = getattr(function, "attr", None) or getattr(function, "id", None) or ""
    return _MESSAGES.search(name) is not None


def _is_in_helper(file: File, call: ast.Call) -> bool:
    return any(
        isinstance(node, ast.FunctionDef) and node.name in WRITTEN_BY_MIGRATE
        for node in file.index.ancestors(call)
    )
