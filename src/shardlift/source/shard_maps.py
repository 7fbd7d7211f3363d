"""shard_map sites: the body, the specs and the mesh of each."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shardlift.source.libraries import NAMED_SHARDINGS, SPECS
from shardlift.source.scopes import FUNCTIONS, Function, argument_at, positional
from shardlift.source.sites import function_of
from shardlift.source.values import Constant, Known, Partial, Result

if TYPE_CHECKING:
    from shardlift.source.file import File

NEW = "jax.shard_map"
OLD = "jax.experimental.shard_map.shard_map"
SHARD_MAPS = frozenset({NEW, OLD})
HELPERS = ("spmd_map", "shard_map_per_device")  # that `migrate` writes in the place of pmap
_OLD_ORDER = ("f", "mesh", "in_specs", "out_specs", "check_rep")


@dataclass(frozen=True, eq=False)
class ShardMap:
    """One place where a function is shard_mapped."""

    file: File = field(repr=False)
    node: ast.expr  # the shard_map call, or the partial of it, or its name as a decorator
    name: str
    keywords: Mapping[str, ast.expr]
    body: Known | None
    decorates: bool = False

    @property
    def function(self) -> Function | None:
        """The body, if it is defined in the same file."""
        if self.body is None or self.body.file is not self.file:
            return None
        return self.body.node if isinstance(self.body.node, FUNCTIONS) else None

    @property
    def checks_vma(self) -> bool | None:
        """Whether varying axes are tracked; None if that is not known."""
        node = self.keywords.get("check_vma") or self.keywords.get("check_rep")
        if node is None:
            return None if "**" in self.keywords else True
        value = self.file.only(node)
        return bool(value.value) if isinstance(value, Constant) else None

    def spec_of(self, parameter: str) -> tuple[object, ...] | None:
        """The spec of a parameter as a tuple of axis names; None if it is not known."""
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
        """The spec of the output, if there is one for the whole output."""
        node = self.keywords.get("out_specs")
        return spec(self.file, node) if node is not None else None


def find_shard_maps(file: File) -> list[ShardMap]:
    """Every call and decorator of shard_map, or of a partial of it, in a file."""
    shard_maps: dict[ast.expr, ShardMap] = {}
    for function in file.index.nodes(ast.FunctionDef):
        for decorator in function.decorator_list:
            value = file.only(decorator)
            name = _decorator_name(value)
            call = value.call if isinstance(value, Partial) and value.file is file else decorator
            if name is not None and isinstance(call, ast.Call):
                mapped = Known(function, file)
                found = _shard_map(file, call, name, mapped, isinstance(value, Partial))
                shard_maps[decorator] = replace(found, node=decorator)
    for name in (NEW, OLD):
        for call in file.calls_of(name):
            if call not in shard_maps:
                shard_maps[call] = _called(file, call, name)
    for call in file.index.nodes(ast.Call):
        value = file.only(call.func)
        name = _decorator_name(value)
        if isinstance(value, Partial) and name is not None and value.file is file:
            bound = _keywords(value.call)
            called = _called(file, call, name)
            shard_maps[call] = replace(called, keywords={**bound, **called.keywords})
    return list(shard_maps.values())


def count_migrated(file: File) -> int:
    """The places that map a function by shard_map, or by a helper that `migrate` wrote."""
    if not any(word in file.source.text for word in ("shard_map", *HELPERS)):
        return 0
    written = (node for node in file.index.nodes(ast.FunctionDef) if node.name in HELPERS)
    inside = {node for helper in written for node in ast.walk(helper)}
    named = (use for helper in HELPERS for use in file.index.names.get(helper, ()))
    uses = [use for use in named if isinstance(use.ctx, ast.Load)]
    return sum(
        node not in inside for node in (*(shard_map.node for shard_map in file.shard_maps), *uses)
    )


def _decorator_name(value: object) -> str | None:
    """The shard_map that a decorator applies: `@partial(shard_map, …)`, `@jax.shard_map(…)`."""
    if isinstance(value, Partial):
        path = getattr(value.function, "path", None)
        return path if path in SHARD_MAPS else None
    is_new = isinstance(value, Result) and value.path == NEW and not value.call.args
    return NEW if is_new else None


def _called(file: File, call: ast.Call, name: str) -> ShardMap:
    """`shard_map(f, …)`."""
    operand = argument_at(call, 0, "f")
    body = function_of(file, operand) if operand is not None else None
    return _shard_map(file, call, name, body)


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg or "**": keyword.value for keyword in call.keywords}


def _shard_map(
    file: File, call: ast.Call, name: str, body: Known | None, is_partial: bool = False
) -> ShardMap:
    keywords = _keywords(call)
    if name == OLD:
        names, arguments = _OLD_ORDER[is_partial:], call.args[is_partial:]
        keywords |= dict(zip(names, arguments, strict=False))
    return ShardMap(file, call, name, keywords, body, decorates=is_partial or not call.args)


def spec(file: File, node: ast.expr) -> tuple[object, ...] | None:
    """`P('i', None)` as `('i', None)`; None if an entry is not known."""
    value = file.only(node)
    if not isinstance(value, Result) or value.path not in SPECS or value.call.keywords:
        return None
    entries: list[object] = []
    for argument in value.call.args:
        entry = value.file.only(argument)
        if isinstance(argument, ast.Starred) or not isinstance(entry, Constant):
            return None
        entries.append(entry.value)
    return tuple(entries)


def placement(file: File, node: ast.expr) -> tuple[File, ast.expr] | None:
    """The second argument of the `jax.device_put` that made a value, and its file."""
    value = file.only(node)
    if not isinstance(value, Result) or value.path != "jax.device_put" or len(value.call.args) < 2:
        return None
    return value.file, value.file.definition(value.call.args[1])


def placed_spec(file: File, node: ast.expr) -> tuple[object, ...] | None:
    """The spec that `jax.device_put(x, NamedSharding(mesh, spec))` places a value with."""
    placed = placement(file, node)
    if placed is None:
        return None
    where, place = placed
    if not isinstance(place, ast.Call) or where.called(place) not in NAMED_SHARDINGS:
        return None
    return spec(where, place.args[1]) if len(place.args) == 2 else None
