"""Imports for a file in which JAX is optional: they go where the file itself imports JAX.

Such a file works where JAX is not installed: it imports it in a `try`, below
`if is_flax_available():` or a flag, or in the functions that need it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from shardlift.source.edits import apply_edits
from shardlift.source.file import File
from shardlift.source.project import Project
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.statements import insert_below
from shardlift.source.text import Source

# Libraries that cannot be imported without JAX.
_NEED_JAX = frozenset(
    {"jax", "flax", "optax", "haiku", "chex", "equinox", "objax", "orbax", "distrax", "rlax"}
)
_GUARDS = (ast.If, ast.Try, ast.With)
Statement = ast.Import | ast.ImportFrom


def is_optional(text: str) -> bool:
    """Whether a text imports JAX, and only under a condition or in functions."""
    return bool(_guarded(_file(text)))


def add_guarded(text: str, statement: str, names: Iterable[str]) -> str:
    """The text with an import of `names` where it imports JAX: once, or in each function."""
    file = _file(text)
    found = _guarded(file)
    at_top = [one for one in found if _function(file, one) is None]
    places = [_first(at_top)] if at_top else list(_in_functions(file, found, set(names)))
    lasts = [_last_of_run(file, place) for place in places]
    return apply_edits(text, [insert_below(file, last, [statement]) for last in lasts])


def _file(text: str) -> File:
    return Project.of(Source("new.py", text)).file("new.py")


def _guarded(file: File) -> list[Statement]:
    """The imports of JAX, and of what needs it; none if one of them is not guarded."""
    statements: list[Statement] = [*file.index.nodes(ast.Import), *file.index.nodes(ast.ImportFrom)]
    found = [one for one in statements if _tops(one) & _NEED_JAX and not _is_for_types(file, one)]
    is_free = any(isinstance(file.index.parents.get(one), ast.Module) for one in found)
    return [] if is_free else sorted(found, key=lambda one: one.lineno)


def _tops(statement: Statement) -> set[str]:
    if isinstance(statement, ast.Import):
        return {alias.name.partition(".")[0] for alias in statement.names}
    return set() if statement.level else {(statement.module or "").partition(".")[0]}


def _is_for_types(file: File, statement: Statement) -> bool:
    above = file.index.parents.get(statement)
    return isinstance(above, ast.If) and "TYPE_CHECKING" in ast.unparse(above.test)


def _function(file: File, statement: Statement) -> ast.AST | None:
    above = file.index.ancestors(statement)
    return next((node for node in above if isinstance(node, FUNCTIONS)), None)


def _first(statements: list[Statement]) -> Statement:
    """The first import of JAX itself, or of what needs it."""
    return next((one for one in statements if "jax" in _tops(one)), statements[0])


def _last_of_run(file: File, statement: Statement) -> Statement:
    """The last of the imports that follow a statement without a blank line."""
    above = file.index.parents[statement]
    bodies = [body for _, body in ast.iter_fields(above) if isinstance(body, list)]
    body = next(body for body in bodies if statement in body)
    last = statement
    for one in body[body.index(statement) + 1 :]:
        if not isinstance(one, Statement) or one.lineno > (last.end_lineno or 0) + 1:
            break
        last = one
    return last


def _in_functions(file: File, found: list[Statement], names: set[str]) -> Iterator[Statement]:
    """The first import in each function that uses one of the names."""
    functions: dict[ast.AST | None, list[Statement]] = {}
    for statement in found:
        functions.setdefault(_function(file, statement), []).append(statement)
    for function, statements in functions.items():
        inner = ast.walk(function) if function is not None else ()
        if names & {node.id for node in inner if isinstance(node, ast.Name)}:
            yield _first(statements)
