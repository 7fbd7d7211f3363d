"""`--to shim`: jax.pmap becomes shardlift.pmap, and nothing else changes."""

import ast
from collections.abc import Iterator

from shardlift.rewrite.goal import Goal
from shardlift.rewrite.sites import COMPARED, kind_of
from shardlift.source.file import File
from shardlift.source.imports import move_names
from shardlift.source.mentions import OWN, Mention, Use
from shardlift.source.model import Kind, Match
from shardlift.source.reaching import reaching_bindings


def rewrite(file: File, goal: Goal) -> Iterator[Match]:
    """Every mention of pmap; what was imported from jax is imported from shardlift."""
    if goal is not Goal.SHIM:
        return
    imported: dict[ast.ImportFrom, dict[ast.alias, list[Mention]]] = {}
    for mention in file.mentions:
        kind, aliases = kind_of(mention), _imports(file, mention.name)
        if not mention.is_own:
            yield Match(mention.name, f"{mention.path} is not jax.pmap", kind=kind)
        elif aliases:
            for statement, alias in aliases:
                imported.setdefault(statement, {}).setdefault(alias, []).append(mention)
        elif mention.use is Use.COMPARED:
            yield Match(mention.name, COMPARED, kind=kind)
        else:
            edit = file.replace(mention.name, "shardlift.pmap")
            yield Match(mention.node, "", (edit,), frozenset({"import shardlift"}), kind=kind)
    for statement, names in imported.items():
        to = {alias: ("shardlift", "pmap") for alias in statement.names if alias in names}
        mentions = [mention for listed in names.values() for mention in listed]
        is_value = any(kind_of(mention) is Kind.VALUE for mention in mentions)
        yield Match(
            statement,
            "",
            move_names(file, statement, to),
            kind=Kind.VALUE if is_value else Kind.SITE,
            sites=tuple(mention.node for mention in mentions),
        )


def _imports(file: File, name: ast.expr) -> list[tuple[ast.ImportFrom, ast.alias]]:
    """The imports from jax that a name comes from; none if it comes from anywhere else too."""
    bound = reaching_bindings(file.index, name) if isinstance(name, ast.Name) else []
    imports: list[tuple[ast.ImportFrom, ast.alias]] = []
    for alias in bound:
        statement = file.index.parents.get(alias)
        if not isinstance(alias, ast.alias) or not isinstance(statement, ast.ImportFrom):
            return []
        if statement.level or f"{statement.module}.{alias.name}" not in OWN:
            return []
        imports.append((statement, alias))
    return imports
