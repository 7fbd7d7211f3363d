"""The order of imports, as isort has it. Text in, text out."""

import ast
import re
from collections.abc import Iterable, Set

from shardlift.source.edits import split_lines
from shardlift.source.scopes import Import, index_of

_LINE = 79


def in_order(before: str, after: str) -> str:
    """The new text with its imports sorted as isort does it, if the old text had them sorted."""
    runs = runs_of(index_of(before).root.body)
    orders = (imports_first, by_module)
    order = next((o for o in orders if all(run == sorted(run, key=o) for run in runs)), None)
    if order is None or not runs:
        return after
    lines = split_lines(after)
    one_per_line = has_one_name_per_line(runs)
    old = frozenset(split_lines(before))
    for run in reversed(runs_of(index_of(after).root.body)):
        wanted = sorted(run, key=order)
        first, last = run[0].lineno - 1, run[-1].end_lineno or 0
        is_split = _repeats_a_module(run) and not one_per_line
        if lines[last - 1].endswith("\n") and (run != wanted or is_split):
            texts = ["".join(lines[one.lineno - 1 : one.end_lineno]) for one in wanted]
            lines[first:last] = texts if one_per_line else merged(texts, old)
    return "".join(lines)


def has_one_name_per_line(runs: Iterable[list[Import]]) -> bool:
    """Whether a file imports each name of a module on a line of its own."""
    # isort puts `as` on a line of its own anyway.
    return any(_repeats_a_module(run, aliases=False) for run in runs)


def merged(statements: Iterable[str], apart: Set[str] = frozenset()) -> list[str]:
    """One statement for all names that come from one module, if it fits on a line.

    Two of which both are in `apart` stay as they are.
    """
    texts: list[str] = []
    for text in statements:
        head, _, names = text.partition(" import ")
        same = [n for n, other in enumerate(texts) if other.partition(" import ")[0] == head]
        both_stay = bool(same) and {text, texts[same[0]]} <= apart
        if names and same and not re.search(r"[#()\\;*]", text + texts[same[0]]) and not both_stay:
            both = [*texts[same[0]].partition(" import ")[2].split(","), *names.split(",")]
            listed = ", ".join(sorted({name.strip() for name in both}))
            line = f"{head} import {listed}{text[len(text.rstrip()) :]}"
            if len(line.rstrip()) <= _LINE:
                texts[same[0]] = line
                continue
        texts.append(text)
    return texts


def _repeats_a_module(run: list[Import], aliases: bool = True) -> bool:
    """Whether two statements import from the same module; those with `as` count if `aliases`."""
    named = [s for s in run if isinstance(s, ast.ImportFrom) and (aliases or not s.names[0].asname)]
    modules = [(s.level, s.module) for s in named]
    return len(modules) != len(set(modules))


def runs_of(body: Iterable[ast.stmt]) -> list[list[Import]]:
    """The imports at the top level, in groups that nothing stands between."""
    runs: list[list[Import]] = []
    last = -1
    for statement in body:
        # One of __future__ stays above all others.
        if isinstance(statement, Import) and module_of(statement) != "__future__":
            if statement.lineno != last + 1:
                runs.append([])
            runs[-1].append(statement)
            last = statement.end_lineno or 0
    return runs


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
