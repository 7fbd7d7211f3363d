"""How far a migration is: the places that map a function with shard_map instead of pmap."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.migrate import spmd_map
from shardlift.migrate.helpers import is_written
from shardlift.migrate.home import MODULE
from shardlift.source.file import File
from shardlift.source.model import Span

# What `migrate` writes in the place of pmap; `shard_map_per_device` is for nested ones.
MAPPERS = (spmd_map.NAME, "shard_map_per_device")
SHIM = "shardlift.pmap"
WORDS = (b"shard_map", *(name.encode() for name in MAPPERS), b"shardlift")


def migrated_sites(file: File) -> list[Span]:
    """Every place that maps a function by shard_map, or by a helper that `migrate` wrote."""
    helpers = [node for node in file.index.nodes(ast.FunctionDef) if _is_helper(file, node)]
    inside = {node for helper in helpers for node in ast.walk(helper)}
    nodes = [*(site.node for site in file.shard_maps), *_uses(file)]
    return sorted({file.span(node) for node in nodes if node not in inside})


def shim_sites(file: File) -> list[Span]:
    """Every place that uses `shardlift.pmap`, which still is a dependency."""
    nodes: list[ast.Attribute | ast.Name]
    nodes = [*file.index.nodes(ast.Attribute), *file.index.nodes(ast.Name)]
    read = (node for node in nodes if isinstance(node.ctx, ast.Load))
    return sorted({file.span(node) for node in read if file.name(node) == SHIM})


def _uses(file: File) -> Iterator[ast.expr]:
    """Calls, decorators and partials of the helpers."""
    for name in file.index.nodes(ast.Name):
        if name.id in MAPPERS and isinstance(name.ctx, ast.Load) and _is_bound(file, name.id):
            parent = file.index.parents.get(name)
            yield parent if isinstance(parent, ast.Call) else name


def _is_bound(file: File, name: str) -> bool:
    bound = file.index.module.names.get(name, [])
    return any(_is_import(file, node) or _is_helper(file, node) for node in bound)


def _is_import(file: File, node: ast.AST) -> bool:
    statement = file.index.parents.get(node)
    module = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
    return isinstance(node, ast.alias) and module.rpartition(".")[2] == MODULE


def _is_helper(file: File, node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef) or file.index.parents.get(node) is not file.index.root:
        return False
    return file.path.endswith(f"{MODULE}.py") or is_written(node, file.source.text)
