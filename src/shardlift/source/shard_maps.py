"""shard_map sites: the body, the specs and the mesh of each."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardlift.source.scopes import positional
from shardlift.source.sites import function_of
from shardlift.source.values import Constant, Known, Located, Partial, Result

if TYPE_CHECKING:
    from shardlift.source.file import File

NEW = "jax.shard_map"
OLD = "jax.experimental.shard_map.shard_map"
SHARD_MAPS = frozenset({NEW, OLD})
_OLD_ORDER = ("f", "mesh", "in_specs", "out_specs", "check_rep")
_SPECS = frozenset({"jax.P", "jax.sharding.PartitionSpec", "jax.experimental.PartitionSpec"})


@dataclass(frozen=True, eq=False)
class ShardMap:
    """One place where a function is shard_mapped."""

    file: File = field(repr=False)
    node: ast.Call  # the shard_map call, or the partial of it
    name: str
    keywords: Mapping[str, ast.expr]
    body: Known | None
    decorates: bool = False

    @property
    def checks_vma(self) -> bool | None:
        """Whether varying axes are tracked; None when it cannot be told."""
        node = self.keywords.get("check_vma") or self.keywords.get("check_rep")
        if node is None:
            return None if "**" in self.keywords else True
        value = self.file.only(node)
        return bool(value.value) if isinstance(value, Constant) else None

    def spec_of(self, parameter: str) -> tuple[object, ...] | None:
        """The spec of a parameter as a tuple of axis names; None when it cannot be told."""
        if self.body is None or isinstance(self.body.node, ast.ClassDef):
            return None
        names = positional(self.body.node)
        specs = self.keywords.get("in_specs")
        if parameter not in names or specs is None:
            return None
        if isinstance(specs, (ast.Tuple, ast.List)):
            place = names.index(parameter)
            return spec(self.file, specs.elts[place]) if place < len(specs.elts) else None
        return spec(self.file, specs)

    @property
    def out_spec(self) -> tuple[object, ...] | None:
        """The spec of the output, where there is one for all of it."""
        node = self.keywords.get("out_specs")
        return spec(self.file, node) if node is not None else None


def find_shard_maps(file: File) -> list[ShardMap]:
    """Every shard_map call of a file, and every decorator that is one."""
    found: list[ShardMap] = []
    taken: set[ast.AST] = set()
    for function in file.index.nodes(ast.FunctionDef):
        for decorator in function.decorator_list:
            value = file.only(decorator)
            call = _decorating(value)
            if call is not None and isinstance(decorator, ast.Call):
                taken.add(decorator)
                body = Known(function, file)
                found.append(_made(file, decorator, call, body, skip=call[1]))
    for node in file.index.nodes(ast.Call):
        name = file.called(node)
        if name in SHARD_MAPS and node not in taken:
            operand = node.args[0] if node.args else _keyword(node, "f")
            body_of = function_of(file, operand) if operand is not None else None
            found.append(_made(file, node, (name or NEW, 0), body_of, skip=0))
    return found


def _decorating(value: object) -> tuple[str, int] | None:
    if isinstance(value, Partial):
        target = value.function
        path = getattr(target, "path", None)
        return (path, 1) if path in SHARD_MAPS else None
    if isinstance(value, Result) and value.path == NEW:
        return (value.path, 0) if not value.call.args else None
    return None


def _made(
    file: File, node: ast.Call, call: tuple[str, int], body: Known | None, skip: int
) -> ShardMap:
    keywords = {keyword.arg or "**": keyword.value for keyword in node.keywords}
    if call[0] == OLD:
        names = _OLD_ORDER[1:] if skip else _OLD_ORDER
        keywords |= dict(zip(names, node.args[skip:], strict=False))
    return ShardMap(file, node, call[0], keywords, body, decorates=bool(skip) or not node.args)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def spec(file: File, node: ast.expr) -> tuple[object, ...] | None:
    """`P('i', None)` as `('i', None)`; None for anything that is not written out."""
    value = file.only(node)
    if not isinstance(value, Result) or value.path not in _SPECS or value.call.keywords:
        return None
    entries: list[object] = []
    for argument in value.call.args:
        entry = value.file.only(argument)
        if isinstance(argument, ast.Starred) or not isinstance(entry, Constant):
            return None
        entries.append(entry.value)
    return tuple(entries)


def unwrapped(file: File, node: ast.expr) -> Iterator[Located]:
    """The expression, and what it wraps: `jax.jit(f)` is `f` too."""
    yield Located(node, file)
    value = file.only(node)
    if isinstance(value, Result) and value.path in ("jax.jit", "jax.pjit") and value.call.args:
        yield from unwrapped(value.file, value.call.args[0])
