"""The order of imports: a text's imports in the order of another text, or of itself before.

Text in, text out, as isort does it.
"""

from __future__ import annotations

import ast
import re

from shardlift.source.edits import split_lines
from shardlift.source.scopes import Import, index_of

_LINE = 79
# What is imported in one statement also where everything else has its own line: Google's style.
_TYPING = frozenset({"typing", "typing_extensions"})
_SEVERAL = re.compile(r"^from (\S+) import (\w+(?:, \w+)+)$", re.M)


def in_order(before: str, after: str) -> str:
    """The new text with its imports sorted as isort does it, if the old text had them sorted."""
    runs = _runs(index_of(before).root)
    orders = (imports_first, by_module)
    order = next((o for o in orders if all(run == sorted(run, key=o) for run in runs)), None)
    if order is None or not runs:
        return after
    split = any(_is_split(run) for run in runs)  # one name per line is a style, too
    lines = split_lines(after)
    for run in reversed(_runs(index_of(after).root)):
        wanted = sorted(run, key=order)
        first, last = run[0].lineno - 1, run[-1].end_lineno or 0
        if not lines[last - 1].endswith("\n"):
            continue
        if run != wanted or (_is_split(run) and not split):
            texts = [_lines_of(lines, statement) for statement in wanted]
            texts = texts if split else _merge(wanted, texts)
            lines[first:last] = [line for text in texts for line in text]
    return "".join(lines)


def has_one_name_per_line(text: str) -> bool:
    """Whether a text imports every name in a statement of its own, as far as it shows."""
    runs = _runs(ast.parse(text))
    several = [s for run in runs for s in run if isinstance(s, ast.ImportFrom) and s.names[1:]]
    others = [s for s in several if s.module not in _TYPING]
    return any(_is_split(run) for run in runs) and not others


def imports_like(example: str, text: str) -> str:
    """A new text with its imports in the order of another, and one name per line as there."""
    if has_one_name_per_line(example):
        text = _SEVERAL.sub(lambda m: "\n".join(_single(m[1], m[2])), text)
    return in_order(example, text)


def _single(module: str, names: str) -> list[str]:
    together = [names] if module in _TYPING else names.split(", ")
    return [f"from {module} import {name}" for name in together]


def _is_split(run: list[Import]) -> bool:
    """Whether two statements import from the same module."""
    modules = [(s.level, s.module) for s in run if isinstance(s, ast.ImportFrom)]
    return len(modules) != len(set(modules))


def _merge(run: list[Import], texts: list[list[str]]) -> list[list[str]]:
    """One statement for neighbours that import from the same module, where it fits on a line."""
    merged: list[list[str]] = []
    for number, (statement, text) in enumerate(zip(run, texts, strict=True)):
        before = run[number - 1] if number else None
        head = text[0].partition(" import ")[0]
        same = isinstance(before, ast.ImportFrom) and isinstance(statement, ast.ImportFrom)
        if not same or merged[-1][0].partition(" import ")[0] != head:
            merged.append(text)
            continue
        pieces = [part.partition(" import ")[2] for part in (merged[-1][0], text[0])]
        names = sorted(
            {name.strip() for piece in pieces for name in piece.split(",")}, key=_by_case
        )
        line = f"{head} import {', '.join(names)}{text[0][len(text[0].rstrip()) :]}"
        whole = len(merged[-1]) == len(text) == 1 and not re.search(r"[#()\\;*]", "".join(pieces))
        if whole and len(line.rstrip()) <= _LINE:
            merged[-1] = [line]
        else:
            merged.append(text)
    return merged


def _by_case(name: str) -> tuple[bool, bool, str]:
    """The order of isort: constants, classes, the others."""
    first = name.partition(" ")[0]
    return not (first.isupper() and len(first) > 1), not first[:1].isupper(), name.lower()


def _runs(tree: ast.Module) -> list[list[Import]]:
    """The imports at the top level, in groups that nothing stands between."""
    runs: list[list[Import]] = []
    last = -1
    for statement in tree.body:
        if isinstance(statement, Import):
            if statement.lineno != last + 1:
                runs.append([])
            runs[-1].append(statement)
            last = statement.end_lineno or 0
    return runs


def _lines_of(lines: list[str], statement: ast.stmt) -> list[str]:
    return lines[statement.lineno - 1 : statement.end_lineno]


def imports_first(statement: Import) -> tuple[bool, str]:
    """The order of isort."""
    return isinstance(statement, ast.ImportFrom), module_of(statement).lower()


def by_module(statement: Import) -> tuple[str, bool]:
    """The order of isort with `force_sort_within_sections`."""
    return module_of(statement).lower(), isinstance(statement, ast.ImportFrom)


def module_of(node: Import) -> str:
    """The module that a statement imports, or imports from."""
    if isinstance(node, ast.Import):
        return node.names[0].name
    return node.module or ""
