"""What a rewrite left without use: functions that replicated or sharded, counts of devices.

Only what was used before the rewrite and is not any more is removed; imports are removed later.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from shardlift.rewrite.passes import Rendering
from shardlift.source.file import File
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.statements import cut, delete, is_alone

_ROUNDS = 4  # a function may be used by another one that is removed
# Calls without an effect: when nothing uses what they return, nobody misses them.
_PURE = re.compile(r"jax\.(local_)?(devices|device_count)$|jax\.process_(count|index)$")


def drop_dead_code(files: Sequence[File], renderings: dict[str, Rendering]) -> None:
    """Remove from the new texts what they do not use and the old ones did."""
    old = {file.path: file for file in files}
    for _ in range(_ROUNDS):
        new = {p: File(renderings[p].source, file.project) for p, file in old.items()}
        dead: dict[str, list[Match]] = {}
        for path, file in new.items():
            if file.source.text == old[path].source.text or path.endswith("__init__.py"):
                continue
            mentioned = [_mentioned(other) for other in new.values() if other is not file]
            dead[path] = list(_dead(old[path], file, frozenset[str]().union(*mentioned)))
        for path, matches in dead.items():
            renderings[path].make(new[path], matches)
        if not any(dead.values()):
            return


def _mentioned(file: File) -> frozenset[str]:
    """Every name, attribute and import of a file, and every string."""
    index = file.index
    texts = (node.value for node in index.nodes(ast.Constant) if isinstance(node.value, str))
    names = {node.id for node in index.nodes(ast.Name)} | {a.name for a in index.nodes(ast.alias)}
    return frozenset({*names, *(node.attr for node in index.nodes(ast.Attribute)), *texts})


def _dead(old: File, new: File, elsewhere: frozenset[str]) -> Iterator[Match]:
    """The functions and assignments that only the old text uses."""
    texts = {node.value for node in new.index.nodes(ast.Constant) if isinstance(node.value, str)}
    kept = elsewhere | texts | {node.attr for node in new.index.nodes(ast.Attribute)}
    for node in new.index.root.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            was_used = _is_used(old.index.root, node.name, _named(old, node.name))
            if node.name not in kept and was_used and not _is_used(new.index.root, node.name, node):
                yield Match(node, "", (_cut_function(new, node),), kind=Kind.DEVICE_AXIS)
    before = {_path(old, node): node for node in old.index.functions()}
    for assignment in new.index.nodes(ast.Assign):
        around = new.index.function_around(assignment) or new.index.root
        was = before.get(_path(new, around)) if around is not new.index.root else old.index.root
        name = _counts_only(new, assignment)
        if name is None or was is None or (around is new.index.root and name in kept):
            continue
        if _is_used(was, name) and not _is_used(around, name):
            yield Match(assignment, "", (delete(new, assignment),), kind=Kind.DEVICE_AXIS)


def _named(file: File, name: str) -> ast.AST | None:
    body = file.index.root.body
    return next((n for n in body if isinstance(n, ast.FunctionDef) and n.name == name), None)


def _is_used(around: ast.AST, name: str, but: ast.AST | None = None) -> bool:
    """Whether a name is read, or bound by a declaration, outside of a definition."""
    inside = set(ast.walk(but)) if but is not None else set()
    for node in ast.walk(around):
        if node in inside:
            continue
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
            return True
    return False


def _counts_only(file: File, node: ast.Assign) -> str | None:
    """The name that an assignment gives to a number or list of devices; None for any other."""
    target = node.targets[0]
    if len(node.targets) != 1 or not isinstance(target, ast.Name) or not is_alone(file, node):
        return None
    is_pure = isinstance(node.value, ast.Call) and _PURE.match(file.called(node.value) or "")
    return target.id if is_pure else None


def _path(file: File, node: ast.AST) -> tuple[str, ...]:
    around = [node, *file.index.ancestors(node)]
    named = (*FUNCTIONS, ast.ClassDef)
    return tuple(getattr(one, "name", "") for one in around if isinstance(one, named))


def _cut_function(file: File, node: ast.FunctionDef) -> Edit:
    """Delete a function, the comment right above it and the blank lines below it."""
    first, last = node.lineno, (node.end_lineno or node.lineno) + 1
    while first > 1 and file.lines[first - 2].startswith("#"):
        first -= 1
    while last < len(file.lines) and not file.lines[last - 1].strip():
        last += 1
    is_last = last >= len(file.lines) and not file.lines[-1].strip()
    while is_last and first > 2 and not file.lines[first - 2].strip():
        first -= 1
    return cut(file, (first, 0), last)
