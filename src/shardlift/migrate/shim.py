"""`--to shim`: jax.pmap becomes shardlift.pmap, and nothing else changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.migrate.references import OWN, references
from shardlift.migrate.rewrite import Goal, Kind, Refusal, Rewrite
from shardlift.migrate.sites import kind_of
from shardlift.source.file import File
from shardlift.source.imports import moved
from shardlift.source.reaching import reaching


def rewrite(file: File, goal: Goal) -> Iterator[Rewrite | Refusal]:
    """Every mention of pmap; what was imported from jax is imported from shardlift."""
    if goal is not Goal.SHIM:
        return
    imported: dict[ast.ImportFrom, set[ast.alias]] = {}
    for reference, path in references(file):
        aliases = _imports(file, reference)
        if path not in OWN:
            yield Refusal(reference, kind_of(file, reference), f"{path} is not jax.pmap")
        elif aliases:
            for statement, alias in aliases:
                imported.setdefault(statement, set()).add(alias)
        else:
            edit = file.replace(reference, "shardlift.pmap")
            yield Rewrite(
                reference, kind_of(file, reference), (edit,), frozenset({"import shardlift"})
            )
    for statement, names in imported.items():
        to = {alias: ("shardlift", "pmap") for alias in statement.names if alias in names}
        yield Rewrite(statement, Kind.VALUE, moved(file, statement, to))


def _imports(file: File, reference: ast.expr) -> list[tuple[ast.ImportFrom, ast.alias]]:
    """The imports from jax that a name comes from; none if it comes from anywhere else too."""
    bound = reaching(file.index, reference) if isinstance(reference, ast.Name) else []
    found: list[tuple[ast.ImportFrom, ast.alias]] = []
    for alias in bound:
        statement = file.index.parents.get(alias)
        if not isinstance(alias, ast.alias) or not isinstance(statement, ast.ImportFrom):
            return []
        if statement.level or f"{statement.module}.{alias.name}" not in OWN:
            return []
        found.append((statement, alias))
    return found
