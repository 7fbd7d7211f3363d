"""A pmapped function runs inside another transform of JAX."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from shardlift.source.file import File
from shardlift.source.model import GUIDE, Edit, Kind, Level, Match, Rule
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.sites import TRANSFORMS, decorating_transform, function_of, surely_mapped
from shardlift.source.values import Mapped


def _visit(file: File, message: str, many_processes: bool) -> Iterator[Match]:
    """Transforms of pmapped functions, or of functions that call one."""
    if file.many_processes is not many_processes:
        return
    for node, transform, mapped in _mapped_under_transform(file):
        sites = (mapped.node,) if mapped.file is file else ()
        yield Match(node, message.format(transform), _without_jit(file, node), sites=sites)


def _mapped_under_transform(file: File) -> Iterator[tuple[ast.AST, str, Mapped]]:
    """Each place where a pmapped function runs inside a transform, and the two."""
    calls = dict(file.mapped_calls)
    for call in file.index.nodes(ast.Call):
        name = file.called(call)
        for place in TRANSFORMS.get(name or "", ()):
            if place < len(call.args):
                operand = call.args[place]
                if (mapped := surely_mapped(file, operand)) is not None:
                    yield call, name or "", mapped
                else:
                    yield from _called_in(file, operand, calls, name or "")
    for function in file.index.nodes(ast.FunctionDef):
        for decorator in function.decorator_list:
            transform = decorating_transform(file, decorator)
            if transform is not None:
                for inner in file.index.within(function, ast.Call):
                    if inner in calls:
                        yield inner, transform, calls[inner]


def _without_jit(file: File, node: ast.AST) -> tuple[Edit, ...]:
    """`jax.pmap(f)` for `jax.jit(jax.pmap(f))`: the jit has nothing to do."""
    if not isinstance(node, ast.Call) or file.called(node) != "jax.jit":
        return ()
    if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Call | ast.Name):
        return ()
    is_mapped = surely_mapped(file, node.args[0]) is not None
    return (file.replace(node, file.text(node.args[0])),) if is_mapped else ()


def _called_in(
    file: File, operand: ast.expr, calls: dict[ast.Call, Mapped], name: str
) -> Iterator[tuple[ast.AST, str, Mapped]]:
    function = function_of(file, operand)
    if function is not None and function.file is file and isinstance(function.node, FUNCTIONS):
        for inner in file.index.within(function.node, ast.Call):
            if inner in calls:
                yield inner, name, calls[inner]


_REFERENCE = f"{GUIDE}#transforming-jax-pmap-e-g-jax-jit"
_KINDS = frozenset({Kind.NAME, Kind.SITE, Kind.VALUE})
RULES = (
    Rule(
        code="SL205",
        level=Level.SLOW,
        summary="pmap inside jit, vmap, grad or a loop of lax",
        advice="Make pmap the outermost transform, or use jax.shard_map inside jit.",
        reference=_REFERENCE,
        words=("pmap",),
        rewritten_as=_KINDS,
        visit=partial(
            _visit,
            message="a pmapped function inside {}: pmap should be outermost",
            many_processes=False,
        ),
    ),
    Rule(
        code="SL601",
        level=Level.BROKEN,
        summary="pmap inside a transform in a program of many processes",
        advice="Call the pmapped function itself; for jax.vmap(jax.pmap(f)) write "
        "jax.pmap(jax.vmap(f), in_axes=1, out_axes=1); under grad use shardlift.pmap.",
        reference=_REFERENCE,
        words=("pmap",),
        since=(0, 8),
        rewritten_as=_KINDS,
        visit=partial(
            _visit,
            message="pmap inside {}: collectives do not cross processes",
            many_processes=True,
        ),
    ),
)
