"""Imports of a text: those that a rewrite needs put in, those that it left without use taken out.

Text in, text out; lines that are not imports stay as they are.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import takewhile

from shardlift.source.edits import apply_edits, split_lines
from shardlift.source.imports import bound_name, drop_names
from shardlift.source.model import Edit
from shardlift.source.project import Project
from shardlift.source.statements import is_only_statement
from shardlift.source.text import Source

_LINE = 79
# What is imported in one statement also where everything else has its own line: Google's style.
_TYPING = frozenset({"typing", "typing_extensions"})
# Has the names of collections.abc, too, that helpers are annotated with.
_ALSO_ABC = "typing"
_SEVERAL = re.compile(r"^from (\S+) import (\w+(?:, \w+)+)$", re.M)
ImportStatement = (ast.Import, ast.ImportFrom)
Statement = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Insertion:
    """Lines to put in front of a line of a text (counted from 1)."""

    line: int
    lines: tuple[str, ...]


def add_imports(
    text: str,
    statements: Iterable[str],
    own: frozenset[str] = frozenset(),
    needed_by: Collection[str] = (),
) -> str:
    """The text with import statements put where a person would.

    `own` has the names of the project's own packages and modules. The imports stand before the
    first use of what they bind, and of the names `needed_by`: helpers that use the imports.
    """
    for statement in sorted(statements, key=_sort_key):
        tree = ast.parse(text)
        uses = _bound_names(statement) | {*needed_by}
        if not _is_there(_before_use(tree, uses), statement):
            limit = end_of_imports(tree, uses)
            text = insert_lines(text, _place(tree, text, statement, own, limit))
    return text


def drop_unused(before: str, after: str) -> str:
    """The new text without the imports that the old one used and this one does not."""
    old, new = ast.parse(before), Project.of(Source("new.py", after)).file("new.py")
    unused = _loads(old) - _loads(new.index.root) - _list_names(new.index.root)
    statements: list[Statement] = [*new.index.nodes(ast.Import), *new.index.nodes(ast.ImportFrom)]
    edits: list[Edit] = []
    for statement in statements:
        aliases = [alias for alias in statement.names if bound_name(alias) in unused]
        future = getattr(statement, "module", "") == "__future__"
        # Alone in a block, it is a matter of that block: of a try, or of TYPE_CHECKING.
        if aliases and not future and not is_only_statement(new, statement):
            edits += drop_names(new, statement, aliases)
    return apply_edits(after, edits) if edits else after


def in_order(before: str, after: str) -> str:
    """The new text with its imports in order, if those of the old one were: as isort does it."""
    runs = _runs(ast.parse(before))
    orders = (_imports_first, _by_module)
    order = next((o for o in orders if all(run == sorted(run, key=o) for run in runs)), None)
    if order is None or not runs:
        return after
    split = any(_is_split(run) for run in runs)  # one name per line is a style, too
    lines = split_lines(after)
    for run in reversed(_runs(ast.parse(after))):
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


def _is_split(run: list[Statement]) -> bool:
    """Whether two statements import from the same module."""
    modules = [(s.level, s.module) for s in run if isinstance(s, ast.ImportFrom)]
    return len(modules) != len(set(modules))


def _merge(run: list[Statement], texts: list[list[str]]) -> list[list[str]]:
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


def _runs(tree: ast.Module) -> list[list[Statement]]:
    """The imports at the top level, in groups that nothing stands between."""
    runs: list[list[Statement]] = []
    last = -1
    for statement in tree.body:
        if isinstance(statement, ImportStatement):
            if statement.lineno != last + 1:
                runs.append([])
            runs[-1].append(statement)
            last = statement.end_lineno or 0
    return runs


def _lines_of(lines: list[str], statement: ast.stmt) -> list[str]:
    return lines[statement.lineno - 1 : statement.end_lineno]


def _imports_first(statement: Statement) -> tuple[bool, str]:
    """The order of isort."""
    return isinstance(statement, ast.ImportFrom), _module(statement).lower()


def _by_module(statement: Statement) -> tuple[str, bool]:
    """The order of isort with `force_sort_within_sections`."""
    return _module(statement).lower(), isinstance(statement, ast.ImportFrom)


def insert_lines(text: str, insertion: Insertion) -> str:
    """The text with lines put in, with the line ends that it has."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = split_lines(text)
    at = insertion.line - 1
    if at and lines[at - 1 : at] and not lines[at - 1].endswith(("\n", "\r")):
        lines[at - 1] += newline
    new = [line + newline for line in insertion.lines]
    return "".join([*lines[:at], *new, *lines[at:]])


def add_definitions(text: str, block: str, names: set[str]) -> str:
    """The text with a block of definitions after its imports, two blank lines around it."""
    line = end_of_imports(ast.parse(text), names)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = split_lines(text)
    above, below = lines[: line - 1], lines[line - 1 :]
    while below and not below[0].strip():
        below.pop(0)
    if above and not above[-1].endswith(("\n", "\r")):
        above[-1] += newline
    gap = newline * 2 if above else ""
    end = newline * 2 if below else ""
    return "".join([*above, gap, block.replace("\n", newline), end, *below])


def end_of_imports(tree: ast.Module, uses: Iterable[str] = ()) -> int:
    """The line after the imports at the top: before anything is defined, or a name is used."""
    last = _after_docstring(tree)
    wanted = set(uses)
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
        if _uses(statement, wanted):
            break
        if isinstance(statement, ImportStatement) or _is_guarded_import(statement):
            last = (statement.end_lineno or statement.lineno) + 1
    return last


def _is_guarded_import(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Try, ast.If)) and any(
        isinstance(inner, ImportStatement) for inner in statement.body
    )


def _bound_names(statement: str) -> set[str]:
    (parsed,) = ast.parse(statement).body
    assert isinstance(parsed, ImportStatement)
    return {bound_name(alias) for alias in parsed.names}


def _before_use(tree: ast.Module, names: set[str]) -> list[ast.stmt]:
    """The statements of a module before the first one that uses one of the names."""
    return list(takewhile(lambda statement: not _uses(statement, names), tree.body))


def _uses(statement: ast.stmt, names: set[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(statement))


def _is_there(body: Iterable[ast.stmt], statement: str) -> bool:
    wanted = ast.dump(ast.parse(statement).body[0])
    parsed = ast.parse(statement).body[0]
    assert isinstance(parsed, ImportStatement)
    for node in body:
        if isinstance(node, ast.ImportFrom) and isinstance(parsed, ast.ImportFrom):
            same = (node.module, node.level) == (parsed.module, parsed.level)
            same |= (node.module, parsed.module) == (_ALSO_ABC, "collections.abc")
            have = {(alias.name, alias.asname) for alias in node.names}
            if same and {(alias.name, alias.asname) for alias in parsed.names} <= have:
                return True
        elif isinstance(node, ast.Import) and isinstance(parsed, ast.Import):
            have = {(alias.name, alias.asname) for alias in node.names}
            if {(alias.name, alias.asname) for alias in parsed.names} <= have:
                return True
        elif isinstance(node, ImportStatement) and ast.dump(node) == wanted:
            return True
    return False


def _place(
    tree: ast.Module, text: str, statement: str, own: frozenset[str], limit: int
) -> Insertion:
    """Where to insert a statement, in a line before ``limit``."""
    present = [
        node
        for node in tree.body
        if isinstance(node, ImportStatement) and getattr(node, "module", "") != "__future__"
    ]
    # Only the run at the top counts; an import further down has its reasons.
    present = [node for node in present if node.lineno < limit]
    parsed = ast.parse(statement).body[0]
    assert isinstance(parsed, ImportStatement)
    section = _section(parsed, own)
    same = [node for node in present if _section(node, own) == section]
    if same:
        above = [node for node in same if _order(node) <= _order(parsed)]
        if not above:
            return Insertion(_first_line(text, same[0]), (statement,))
        return Insertion((above[-1].end_lineno or 0) + 1, (statement,))
    before = [node for node in present if _section(node, own) < section]
    if before:
        return Insertion((before[-1].end_lineno or 0) + 1, ("", statement))
    if present:
        return Insertion(_first_line(text, present[0]), (statement, ""))
    line = max(limit, _after_docstring(tree))
    return Insertion(line, ("", statement, "") if line > 1 else (statement, ""))


def _first_line(text: str, node: ast.stmt) -> int:
    """The line of a statement, or of the comment that stands right above it."""
    lines = split_lines(text)
    line = node.lineno
    while line > 1 and lines[line - 2].startswith("#") and not lines[line - 2].startswith("#!"):
        line -= 1
    # A comment at the very top belongs to the file.
    return node.lineno if line <= 2 else line


def _after_docstring(tree: ast.Module) -> int:
    line = 1
    for statement in tree.body:
        is_doc = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not is_doc and not future:
            break
        line = (statement.end_lineno or 0) + 1
    return line


def _section(node: Statement, own: frozenset[str]) -> int:
    """0: the standard library, 1: others, 2: the project's own."""
    module = _module(node)
    if getattr(node, "level", 0):
        return 3
    top = module.partition(".")[0]
    if top in own:
        return 2
    return 0 if top in sys.stdlib_module_names else 1


def _module(node: Statement) -> str:
    if isinstance(node, ast.Import):
        return node.names[0].name
    return node.module or ""


def _order(node: Statement) -> tuple[str, bool]:
    return _module(node).lower(), isinstance(node, ast.ImportFrom)


def _sort_key(statement: str) -> tuple[bool, str]:
    return statement.startswith("from"), statement


def _loads(tree: ast.Module) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _list_names(tree: ast.Module) -> set[str]:
    """Names that strings of `__all__`, and of annotations, mention."""
    found: set[str] = set()
    for node in ast.walk(tree):
        targets = getattr(node, "targets", [])
        value = getattr(node, "value", None)
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets) and value:
            found |= {c.value for c in ast.walk(value) if isinstance(c, ast.Constant)}  # type: ignore[misc]
        annotation = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if isinstance(annotation, ast.AST):
            for constant in ast.walk(annotation):
                if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                    found |= set(re.findall(r"\w+", constant.value))
    return found
