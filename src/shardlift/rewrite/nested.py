"""pmaps inside one another: those that are one call in another, and those that cannot be told."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.rewrite.options import Options, read_options
from shardlift.source.file import File
from shardlift.source.mentions import OWN
from shardlift.source.sites import Role, surely_mapped
from shardlift.source.values import Known

CALLED_INSIDE = (
    "a pmapped function is called inside a pmapped one: put both axes into one shard_map "
    "over a mesh of two axes by hand"
)

MAPPED_TWICE = (
    "a pmapped function is pmapped again: write the two as one expression, "
    "pmap(pmap(f, 'j'), 'i'), and they become one shard_map"
)
TWICE_BY_HAND = (
    "a pmapped function is pmapped again, with static arguments, in_axes or out_axes: put both "
    "axes into one shard_map over a mesh of two axes by hand"
)
_NOT_NESTED = {"in_axes", "out_axes", "static_broadcasted_argnums"}  # `forms` refuses them


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
    inner: dict[ast.Call, list[ast.AST]] = {c: [m.node] for c, m in file.mapped_calls}
    reasons: dict[ast.AST, str] = {}
    keywords = {site.node: site.keywords.keys() for site in file.sites}
    for site in file.sites:
        operand = site.operand
        if isinstance(operand, (ast.Name, ast.Attribute)) and site.role is Role.MAP:
            mapped = surely_mapped(file, operand)
            if mapped is not None:
                given = site.keywords.keys() | keywords.get(mapped.node, frozenset())
                reason = TWICE_BY_HAND if given & _NOT_NESTED else MAPPED_TWICE
                reasons[site.node] = reasons[mapped.node] = reason
                continue
        function = site.function
        if site.role is not Role.MAP or function is None or function.file is not file:
            continue
        for call in _calls_from(file, function.node):
            for node in inner.get(call, ()):
                if node is not site.node:
                    reasons[site.node] = reasons[node] = CALLED_INSIDE
    return reasons


def _calls_from(file: File, function: ast.AST) -> Iterator[ast.Call]:
    """The calls in a function, and in the functions of the file that it calls."""
    reached = [function]
    for caller in reached:
        for call in file.index.calls_in[caller]:
            yield call
            value = file.only(call.func)
            if isinstance(value, Known) and value.file is file and value.node not in reached:
                reached.append(value.node)
