"""pmaps inside one another: those that are one call in another, and those that cannot be told."""

from __future__ import annotations

import ast

from shardlift.migrate.options import Options, read_options
from shardlift.source.file import File
from shardlift.source.mentions import OWN
from shardlift.source.sites import Role, surely_mapped

CALLED_INSIDE = (
    "a pmapped function is called inside a pmapped one: put both axes into one shard_map "
    "over a mesh of two axes by hand"
)

MAPPED_TWICE = (
    "a pmapped function is pmapped again: write the two as one expression, "
    "pmap(pmap(f, 'j'), 'i'), and they become one shard_map"
)


def levels_of(file: File, call: ast.Call) -> tuple[list[Options], list[ast.expr]]:
    """The pmaps of a call, outermost first, as long as each maps the next one itself.

    Also the names of pmap that are inside: they are dealt with.
    """
    levels: list[Options] = []
    inside: list[ast.expr] = []
    while True:
        levels.append(read_options(file, call))
        operand = levels[-1].operand
        if isinstance(operand, ast.Call) and file.name(operand.func) in OWN:
            inside.append(operand.func)
            call = operand
            continue
        return levels, inside


def tangled(file: File) -> dict[ast.AST, str]:
    """Sites that map, or call, what another site has mapped; and that one; with the reason.

    One of them rewritten and the other not would be of no use.
    """
    inner = dict(file.mapped_calls)
    found: dict[ast.AST, str] = {}
    for site in file.sites:
        operand = site.operand
        if isinstance(operand, (ast.Name, ast.Attribute)) and site.role is Role.MAP:
            mapped = surely_mapped(file, operand)
            if mapped is not None:
                found[site.node] = found[mapped.node] = MAPPED_TWICE
                continue
        function = site.function
        if site.role is not Role.MAP or function is None or function.file is not file:
            continue
        for call in file.index.within(function.node, ast.Call):
            mapped = inner.get(call)
            if mapped is not None and mapped.node is not site.node:
                found[site.node] = found[mapped.node] = CALLED_INSIDE
    return found
