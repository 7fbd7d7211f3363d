"""A collective in a shard_map body names an axis that the mesh does not have.

Under pmap the name came with `axis_name`. In a shard_map it has to be an axis of the mesh: any
other is an error when the body is traced.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import axis_of, collectives
from shardlift.source.model import GUIDE, Effect, Match, Rule
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.values import Constant, Result

_MESHES = {"jax.make_mesh": 1, "jax.sharding.Mesh": 1, "jax.experimental.maps.Mesh": 1}


def visit(file: File) -> Iterator[Match]:
    """A literal axis name in the body, against the literal names of the mesh."""
    for shard_map in file.shard_maps:
        mesh, body = shard_map.keywords.get("mesh"), shard_map.body
        axes = _axes(file, mesh) if mesh is not None else None
        if axes is None or body is None or body.file is not file:
            continue
        if not isinstance(body.node, FUNCTIONS) or _binds_axes(file, body.node):
            continue
        for call, _ in collectives(file, body.node):
            axis = axis_of(file, call)
            if isinstance(axis, str) and axis not in axes:
                listed = ", ".join(map(repr, axes))
                yield Match(call, f"the mesh has {listed}, and no axis {axis!r}")


def _axes(file: File, node: ast.expr) -> tuple[str, ...] | None:
    value = file.only(node)
    if not isinstance(value, Result) or value.path not in _MESHES:
        return None
    place = _MESHES[value.path]
    names = value.call.args[place] if len(value.call.args) > place else None
    for keyword in value.call.keywords:
        names = keyword.value if keyword.arg == "axis_names" else names
    if names is None:
        return None
    names = value.file.definition(names)
    elements = names.elts if isinstance(names, (ast.Tuple, ast.List)) else [names]
    found = [value.file.only(element) for element in elements]
    texts = [v.value for v in found if isinstance(v, Constant) and isinstance(v.value, str)]
    return tuple(texts) if len(texts) == len(found) else None


def _binds_axes(file: File, body: ast.AST) -> bool:
    """Whether the body brings axis names of its own, by vmap, pmap or an inner shard_map."""
    return any(
        keyword.arg in ("axis_name", "spmd_axis_name", "axis_names")
        for call in ast.walk(body)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if not (file.called(call) or "").startswith("jax.lax.")
    )


_HEAD = (
    "import jax\nfrom jax import lax\nfrom jax.sharding import Mesh, PartitionSpec as P\n"
    "mesh = Mesh(devices, ('i',))\n"
)

RULE = Rule(
    code="SL704",
    name="axis-not-in-mesh",
    effect=Effect.BROKEN,
    summary="a collective over an axis that the mesh does not have",
    advice="Use one name for the mesh axis, the specs and the collectives.",
    explain=__doc__,
    reference=f"{GUIDE}#collectives",
    visit=visit,
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        _HEAD + "f = jax.shard_map(lambda x: lax.psum(x, 'batch'), mesh=mesh, in_specs=P('i'), "
        "out_specs=P())  # SL704\n",
        _HEAD + "def g(x):\n    return lax.pmean(x, axis_name='j')  # SL704\n"
        "f = jax.shard_map(g, mesh=mesh, in_specs=P('i'), out_specs=P())\n",
    ),
    good=(
        _HEAD + "f = jax.shard_map(lambda x: lax.psum(x, 'i'), mesh=mesh, in_specs=P('i'), "
        "out_specs=P())\n",
        _HEAD + "f = jax.shard_map(lambda x: lax.psum(x, 'j'), mesh=other, in_specs=P('i'), "
        "out_specs=P())\n",
        _HEAD + "def g(x):\n    return jax.vmap(lambda v: lax.psum(v, 'j'), axis_name='j')(x)\n"
        "f = jax.shard_map(g, mesh=mesh, in_specs=P('i'), out_specs=P())\n",
        _HEAD + "f = jax.shard_map(lambda x: lax.psum(x, name), mesh=mesh, in_specs=P('i'), "
        "out_specs=P())\n",
        _HEAD + "f = jax.pmap(lambda x: lax.psum(x, 'batch'), axis_name='batch')\n",
    ),
)
