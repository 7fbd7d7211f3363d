"""A collective in a shard_map body names an axis that the mesh does not have.

For pmap, `axis_name` defines the name. In a shard_map it must be an axis of the mesh: any other
name is an error when the body is traced.
"""

import ast
from collections.abc import Iterator

from shardlift.check.rules._examples import LAX
from shardlift.source.file import File
from shardlift.source.idioms import axis_of, collectives, literals
from shardlift.source.libraries import MESHES
from shardlift.source.model import GUIDE, Match, Rule
from shardlift.source.scopes import argument_at
from shardlift.source.values import Result


def visit(file: File) -> Iterator[Match]:
    """Literal axis names in the body that are not among the literal names of the mesh."""
    for shard_map in file.shard_maps:
        mesh, body = shard_map.keywords.get("mesh"), shard_map.function
        axes = _axes(file, mesh) if mesh is not None else None
        if axes is None or body is None or _binds_axes(file, body):
            continue
        for call, _ in collectives(file, body):
            axis = axis_of(file, call)
            if isinstance(axis, str) and axis not in axes:
                listed = ", ".join(map(repr, axes))
                yield Match(call, f"the mesh has no axis {axis!r}, only {listed}")


def _axes(file: File, node: ast.expr) -> tuple[str, ...] | None:
    value = file.only(node)
    if not isinstance(value, Result) or value.path not in MESHES:
        return None
    names = argument_at(value.call, 1, "axis_names")
    if names is None:
        return None
    values = literals(value.file, names)
    texts = tuple(text for text in values if isinstance(text, str))
    return texts if len(texts) == len(values) else None


def _binds_axes(file: File, body: ast.AST) -> bool:
    """Whether the body defines axis names itself, by vmap, pmap or an inner shard_map."""
    return any(
        keyword.arg in ("axis_name", "spmd_axis_name", "axis_names")
        for call in ast.walk(body)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if not (file.called(call) or "").startswith("jax.lax.")
    )


_HEAD = f"{LAX}mesh = jax.sharding.Mesh(devices, ('i',))\n"
_SPECS = "in_specs=P('i'), out_specs=P()"
_MAPPED = f"f = jax.shard_map(g, mesh=mesh, {_SPECS})"

RULE = Rule(
    code="SL704",
    summary="a collective over an axis that the mesh does not have",
    advice="Use one name for the mesh axis, the specs and the collectives.",
    reference=f"{GUIDE}#collectives",
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        f"{_HEAD}f = jax.shard_map(lambda x: lax.psum(x, 'batch'), mesh=mesh, {_SPECS})  # SL704",
        f"{_HEAD}def g(x):\n    return lax.pmean(x, axis_name='j')  # SL704\n{_MAPPED}",
    ),
    good=(
        f"{_HEAD}f = jax.shard_map(lambda x: lax.psum(x, 'i'), mesh=mesh, {_SPECS})",
        f"{_HEAD}f = jax.shard_map(lambda x: lax.psum(x, 'j'), mesh=other, {_SPECS})",
        f"{_HEAD}def g(x):\n    return jax.vmap(lambda v: lax.psum(v, 'j'), axis_name='j')(x)\n"
        f"{_MAPPED}",
        f"{_HEAD}f = jax.shard_map(lambda x: lax.psum(x, name), mesh=mesh, {_SPECS})",
    ),
)
