"""Functions that a rewrite left without use, such as a `replicate` or `shard` of the program.

Only what was used before the rewrite and is named nowhere after it is removed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlift.rewrite.passes import Rendering
from shardlift.source.file import File
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.statements import cut

_ROUNDS = 4  # a function may be used by another one that is removed


def drop_dead_code(files: Sequence[File], renderings: dict[str, Rendering]) -> None:
    """Remove from the new texts what they do not use and the old ones did."""
    before = _mentions(files)
    for _ in range(_ROUNDS):
        new = [File(renderings[file.path].source, file.project) for file in files]
        unused = before - _mentions(new)
        dead = {
            file: [*_dead(file, unused)]
            for file, old in zip(new, files, strict=True)
            if file.source.text != old.source.text and not file.path.endswith("__init__.py")
        }
        for file, matches in dead.items():
            renderings[file.path].make(file, matches)
        if not any(dead.values()):
            return


def _mentions(files: Sequence[File]) -> set[str]:
    """Every name that is read, attribute, import and string of some files."""
    mentions: set[str] = set()
    for index in (file.index for file in files):
        mentions |= {node.id for node in index.nodes(ast.Name)}
        mentions |= {node.attr for node in index.nodes(ast.Attribute)}
        mentions |= {node.name for node in index.nodes(ast.alias)}
        mentions |= {str(node.value) for node in index.nodes(ast.Constant)}
    return mentions


def _dead(file: File, unused: set[str]) -> Iterator[Match]:
    for node in file.index.root.body:
        is_function = isinstance(node, ast.FunctionDef) and not node.decorator_list
        if is_function and node.name in unused:  # type: ignore[attr-defined]
            yield Match(node, "", (_cut_function(file, node),), kind=Kind.DEVICE_AXIS)  # type: ignore[arg-type]


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
