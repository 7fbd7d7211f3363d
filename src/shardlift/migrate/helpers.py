"""The functions that a migration writes into a package, once: which there are, and their text.

A helper is a function at the top level of a file of `helper_texts`; a new file there is all it
takes to add some. What a helper needs is read off the names that it says. A helper may have
smaller texts, its variants, for files that need no more: `name[plain]` and `name[specs]` ask for
one, `name[plain, cached]` for one that remembers what it returned, which would keep closures
alive; `name[plain, any]` does not mind either way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from shardlift.source.scopes import Index

# Standard library first, as isort has it.
_STANDARD = ("collections", "dataclasses", "functools", "itertools", "math", "typing")
_CACHE = "@functools.lru_cache(maxsize=128)  # a function that is mapped again is compiled once"
# The short names of modules that helpers use, and what to say where a file means another by them.
_FULL = {"np": ("numpy", "import numpy"), "jnp": ("jax.numpy", "import jax")}
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


def required(names: Iterable[str], known: Mapping[str, Helper] | None = None) -> tuple[Helper, ...]:
    """These helpers and all that they need, in the order in which they are written.

    A variant is enough only if nothing needs more of the helper.
    """
    known = known or catalogue()
    wanted: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting += known[name].needs if name in known else ()
    chosen = {_settled({key for key in wanted if bare(key) == name}) for name in map(bare, wanted)}
    if not chosen <= wanted:  # of two variants that exclude each other the whole was chosen
        return required(chosen, known)
    return tuple(helper for name, helper in known.items() if name in chosen)


def bare(name: str) -> str:
    """The name of a helper without that of a variant.

    >>> bare("shard_map_per_device[plain]")
    'shard_map_per_device'
    """
    return name.partition("[")[0]


def _settled(keys: set[str]) -> str:
    """The one text of a helper that serves everyone who asks for it."""
    name = bare(next(iter(keys)))
    if name in keys:
        return name
    asked = {word for key in keys for word in re.findall(r"\w+", key.removeprefix(name))}
    if "cached" in asked and "uncached" in asked:
        return name
    form = "specs" if "specs" in asked else "plain"
    return f"{name}[{form}, cached]" if "cached" in asked else f"{name}[{form}]"


def extended(text: str, names: Iterable[str]) -> tuple[str, tuple[Helper, ...], set[str]]:
    """A text whose helpers serve these names too, what is to be added to it, and the imports.

    A variant that is there and is no longer enough gives way to a larger text.
    """
    known = _spelled_for(text)
    there = _there(text, known)
    chosen = required({*names, *there}, known)
    before = text
    for helper in there.values():
        new = next(one for one in chosen if one.name == helper.name)
        text = text.replace(helper.source, new.source)
    defined = Index(ast.parse(text)).module.names
    missing = tuple(helper for helper in chosen if helper.name not in defined)
    return text, missing, set(imports_of(missing if text == before else chosen))


def _there(text: str, known: Mapping[str, Helper]) -> dict[str, Helper]:
    """The helpers that a text has word for word; of two that contain each other the longer."""
    found = {key: helper for key, helper in known.items() if helper.source in text}
    longest: dict[str, int] = {}
    for helper in found.values():
        longest[helper.name] = max(longest.get(helper.name, 0), len(helper.source))
    return {key: h for key, h in found.items() if len(h.source) == longest[h.name]}


def _spelled_for(text: str) -> Mapping[str, Helper]:
    """The catalogue for a text that may give `np` or `jnp` to something else."""
    index = Index(ast.parse(text))
    known = catalogue()
    for short, (full, statement) in _FULL.items():
        bound = index.module.names.get(short, ())
        if any(_imported(index, node) != full for node in bound):
            known = {key: _spelled(helper, short, full, statement) for key, helper in known.items()}
    return known


def _imported(index: Index, node: ast.AST) -> str | None:
    """The module that a name is imported as; None if it is something else."""
    statement = index.parents.get(node)
    if not isinstance(node, ast.alias):
        return None
    if isinstance(statement, ast.ImportFrom):
        return f"{statement.module}.{node.name}"
    return node.name


def _spelled(helper: Helper, short: str, full: str, statement: str) -> Helper:
    source = re.sub(rf"\b{short}\.", f"{full}.", helper.source)
    if source == helper.source:
        return helper
    others = {line for line in helper.imports if not line.endswith(f" as {short}")}
    return replace(helper, source=source, imports=frozenset({*others, statement}))


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
    texts = _texts(folder)
    trees = {name: ast.parse(text) for name, text in texts.items()}
    known = {name for tree in trees.values() for node in tree.body for name in _defines(node)}
    variants = {
        f"{helper.name}[{file.removesuffix('.py')}]": helper
        for file, text in _texts(folder / "variants").items()
        for tree in [ast.parse(text)]
        for node in tree.body
        for helper in _helpers(node, tree, text, known)
    }
    cached = {
        f"{key.removesuffix(']')}, cached]": replace(helper, source=f"{_CACHE}\n{helper.source}")
        for key, helper in variants.items()
    }
    whole = {
        helper.name: helper
        for file, tree in trees.items()
        for node in tree.body
        for helper in _helpers(node, tree, texts[file], known)
    }
    return variants | cached | whole


def _texts(folder: Traversable) -> dict[str, str]:
    return {
        entry.name: entry.read_text("utf-8")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".py") and entry.name != "__init__.py"
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
    source = _segment(text, node)
    return [Helper(n, source, imports, frozenset(known & said - {n})) for n in _defines(node)]


def _defines(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _segment(text: str, node: ast.stmt) -> str:
    """The text of a statement, its decorators with it."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
