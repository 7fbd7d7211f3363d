"""The functions that a migration writes into a package, once: which there are, and their text.

A helper is a function at the top level of a file of `helper_texts`; a new file there is all it
takes to add some. What a helper needs is read off the names that it says.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

# Standard library first, as isort has it.
_STANDARD = ("collections", "dataclasses", "functools", "itertools", "math", "typing")
MODULE_DOC = '"""Helpers for code that runs one row on each device."""'


@dataclass(frozen=True)
class Helper:
    """One definition: its text, and what has to be there with it."""

    name: str
    source: str
    imports: frozenset[str]  # whole statements
    needs: frozenset[str]  # names of other helpers


def catalogue() -> Mapping[str, Helper]:
    """Every helper by its name, in the order in which they are written."""
    return _catalogue()


def required(names: Iterable[str]) -> tuple[Helper, ...]:
    """These helpers and all that they need, in the order in which they are written."""
    known = catalogue()
    wanted: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting += known[name].needs
    return tuple(helper for name, helper in known.items() if name in wanted)


def imports_of(helpers: Iterable[Helper]) -> list[str]:
    """The import statements that some helpers need, sorted as isort would."""
    return sorted({line for helper in helpers for line in helper.imports}, key=import_key)


def emit(names: Iterable[str]) -> str:
    """The text of a module with these helpers in it.

    >>> print(emit(["device_mesh"]).splitlines()[0])
    \"\"\"Helpers for code that runs one row on each device.\"\"\"
    """
    helpers = required(names)
    return f"{MODULE_DOC}\n\n{import_block(imports_of(helpers))}\n\n\n{definitions(helpers)}"


def definitions(helpers: Iterable[Helper]) -> str:
    """The text of some helpers, two blank lines between them."""
    return "\n\n\n".join(helper.source for helper in helpers) + "\n"


def import_block(statements: Iterable[str]) -> str:
    """Import statements, a blank line between the standard library and the rest."""
    ordered = sorted(set(statements), key=import_key)
    sections = [[line for line in ordered if import_key(line)[0] == n] for n in (0, 1)]
    return "\n\n".join("\n".join(section) for section in sections if section)


def import_key(statement: str) -> tuple[int, int, str]:
    """Where isort puts a statement: by section, `import` before `from`, by name."""
    words = statement.split()
    return int(words[1].partition(".")[0] not in _STANDARD), int(words[0] == "from"), statement


@cache
def _catalogue() -> Mapping[str, Helper]:
    folder = resources.files(__package__) / "helper_texts"
    texts = {
        entry.name: entry.read_text("utf-8")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".py") and entry.name != "__init__.py"
    }
    trees = {name: ast.parse(text) for name, text in texts.items()}
    known = {name for tree in trees.values() for node in tree.body for name in _defines(node)}
    return {
        helper.name: helper
        for file, tree in trees.items()
        for node in tree.body
        for helper in _helpers(node, tree, texts[file], known)
    }


def _helpers(node: ast.stmt, tree: ast.Module, text: str, known: set[str]) -> list[Helper]:
    said = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    imports = frozenset(
        ast.unparse(ast.ImportFrom(s.module, [alias], 0) if isinstance(s, ast.ImportFrom) else s)
        for s in tree.body
        if isinstance(s, (ast.Import, ast.ImportFrom)) and not getattr(s, "level", 0)
        for alias in s.names
        if _bound(alias) in said
    )
    source = ast.get_source_segment(text, node) or ""
    return [Helper(n, source, imports, frozenset(known & said - {n})) for n in _defines(node)]


def _defines(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]
