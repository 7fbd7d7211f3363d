"""Function bodies that were written for pmap, with one axis less, and now run in shard_map."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import has_device_axis, is_zero
from shardlift.source.scopes import Function, positional
from shardlift.source.shard_maps import SHARD_MAPS, ShardMap
from shardlift.source.values import Argument, Known, Result


def shard_map_calls(file: File) -> Iterator[tuple[ast.Call, ShardMap]]:
    """Every call of a function that shard_map returned, with or without jit."""
    if not file.shard_maps:
        return
    by_call = {shard_map.node: shard_map for shard_map in file.shard_maps}
    by_body = {s.body.node: s for s in file.shard_maps if s.body is not None and s.decorates}
    for call in file.index.nodes(ast.Call):
        value = file.only(call.func)
        if isinstance(value, Result) and value.path == "jax.jit" and value.call.args:
            value = value.file.only(value.call.args[0])
        if isinstance(value, Result) and value.path in SHARD_MAPS and value.call in by_call:
            yield call, by_call[value.call]
        elif isinstance(value, Known) and value.node in by_body:
            yield call, by_body[value.node]


def pmap_bodies(file: File) -> Iterator[tuple[Function, frozenset[str]]]:
    """Bodies of shard_maps that were written for pmap, and the parameters that show it.

    These are parameters whose block has the device axis and whose body does not remove it. A block
    has the axis if its spec maps the first axis, and the function is also pmapped or the caller
    passes an array in pmap's layout.
    """
    if not file.shard_maps:
        return
    pmapped = {site.function.node for site in file.sites if site.function is not None}
    calls: defaultdict[ast.AST, list[ast.Call]] = defaultdict(list)
    for call, called in shard_map_calls(file):
        calls[called.node].append(call)
    for shard_map in file.shard_maps:
        body = shard_map.function
        if body is None:
            continue
        names = positional(body)
        mapped = {n for n in names if (shard_map.spec_of(n) or (None,))[0] is not None}
        if body not in pmapped:
            mapped &= {
                name
                for call in calls[shard_map.node]
                for name, argument in zip(names, call.args, strict=False)
                if has_device_axis(file, argument)
            }
        kept = frozenset(name for name in mapped if not _removes_axis(file, body, name))
        if kept:
            yield body, kept


def _removes_axis(file: File, body: Function, name: str) -> bool:
    """Whether a body has `x[0]`, `x.squeeze(0)` or `jnp.squeeze(x, 0)`, or binds the name anew."""
    for node in ast.walk(body):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.Subscript) and _is_name(node.value, name) and is_zero(node.slice):
            return True
        if isinstance(node, ast.Call):
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            method = node.func if isinstance(node.func, ast.Attribute) else None
            is_method = method and method.attr == "squeeze" and _is_name(method.value, name)
            if is_method and any(is_zero(argument) for argument in arguments):
                return True
            is_function = file.called(node) in ("jax.numpy.squeeze", "jax.lax.squeeze")
            if is_function and len(arguments) > 1 and _is_name(arguments[0], name):
                return True
    return False


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def block_uses(file: File) -> Iterator[tuple[ast.AST, str, list[ast.Name]]]:
    """What is done with blocks that still have the device axis: a node, a name and the blocks.

    The name belongs to a method or an attribute (`sum`), or a library's function (`jax.nn.relu`)
    that is called with them; empty for anything else.
    """
    for body, names in pmap_bodies(file):
        uses: dict[ast.AST, tuple[str, list[ast.Name]]] = {}
        for block in file.index.within(body, ast.Name):
            value = file.only(block) if block.id in names else None
            if isinstance(value, Argument) and value.function is body:
                use, name = _use(file, block)
                uses.setdefault(use, (name, []))[1].append(block)
        yield from ((use, name, blocks) for use, (name, blocks) in uses.items())


def _use(file: File, block: ast.Name) -> tuple[ast.AST, str]:
    parent = file.index.parents[block]
    if not isinstance(parent, ast.Attribute):
        return parent, file.called(parent) or ""
    call = file.index.parents.get(parent)
    is_method = isinstance(call, ast.Call) and call.func is parent
    return call if is_method and call is not None else parent, parent.attr
