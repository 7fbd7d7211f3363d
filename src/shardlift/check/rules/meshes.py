"""Meshes: how they are made, and how they are entered."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.libraries import MESHES, NAMED_SHARDINGS
from shardlift.source.model import CHANGELOG, GUIDE, SHARD_MAP, Kind, Level, Match, Rule
from shardlift.source.shard_maps import spec
from shardlift.source.values import Result


def _explicit_mesh(file: File) -> Iterator[Match]:
    """`mesh=` arguments that can only be a make_mesh without `axis_types`."""
    for shard_map in file.shard_maps:
        mesh, specs = shard_map.keywords.get("mesh"), shard_map.keywords.get("in_specs")
        value = file.only(mesh) if mesh is not None else None
        if mesh is None or specs is None or spec(file, specs) == ():
            continue
        if not isinstance(value, Result) or value.path != "jax.make_mesh":
            continue
        if not _is_typed(value.call) and not _places(file, value):
            yield Match(mesh, "make_mesh creates Explicit axes: unplaced inputs raise an error")


def _is_typed(call: ast.Call) -> bool:
    """Whether a mesh is made with `axis_types`, or may be."""
    return len(call.args) > 2 or any(k.arg in ("axis_types", None) for k in call.keywords)


def _places(file: File, mesh: Result) -> bool:
    return any(
        file.called(call) in NAMED_SHARDINGS and call.args and file.only(call.args[0]) == mesh
        for call in file.index.nodes(ast.Call)
    )


def _make_mesh_keyword(file: File) -> Iterator[Match]:
    """Keywords that make_mesh does not have in the target version."""
    for call in file.index.nodes(ast.Call):
        if file.called(call) != "jax.make_mesh":
            continue
        for keyword in call.keywords:
            if keyword.arg is not None and _is_unknown(file, keyword.arg):
                is_first = not call.args and keyword is call.keywords[0]
                edits = (file.replace(keyword, file.text(keyword.value)),) if is_first else ()
                text = f"jax.make_mesh has no parameter {keyword.arg}: pass it by position"
                yield Match(keyword, text, edits)


def _is_unknown(file: File, name: str) -> bool:
    if name == "shape":
        return True
    if name == "axis_shapes":
        return file.target >= (0, 12)
    return name == "axis_sizes" and file.target < (0, 11)


def _mesh_context(file: File) -> Iterator[Match]:
    """Items of with statements that can only be a mesh."""
    for statement in file.index.nodes(ast.With):
        for mesh in (entered.context_expr for entered in statement.items):
            value = file.only(mesh)
            if isinstance(value, Result) and value.path in MESHES:
                text = f"`with {file.brief(mesh)}:` is deprecated since JAX 0.10.1"
                yield Match(mesh, text)


_ABSTRACT_MESH = "jax.sharding.AbstractMesh"


def _abstract_mesh(file: File) -> Iterator[Match]:
    """Calls of AbstractMesh without `axis_types`."""
    for call in file.index.nodes(ast.Call):
        if file.called(call) == _ABSTRACT_MESH and not _is_typed(call):
            yield Match(call, "this AbstractMesh has Explicit axes since JAX 0.12, and Auto before")


RULES = (
    Rule(
        code="SL701",
        level=Level.BROKEN,
        summary="shard_map gets a mesh with Explicit axes from make_mesh",
        advice="Use jax.sharding.Mesh or axis_types=(AxisType.Auto,), or place the inputs.",
        reference=SHARD_MAP,
        names=("jax.make_mesh",),
        since=(0, 9),
        visit=_explicit_mesh,
    ),
    Rule(
        code="SL702",
        level=Level.BROKEN,
        summary="a keyword that jax.make_mesh does not have",
        advice="Pass the sizes by position.",
        reference=f"{GUIDE}#rewriting-pmap-to-jit-shard-map",
        names=("jax.make_mesh",),
        rewritten_as=frozenset({Kind.NAME}),
        visit=_make_mesh_keyword,
    ),
    Rule(
        code="SL712",
        level=Level.NOTE,
        summary="a mesh is entered without jax.set_mesh",
        advice="Write `with jax.set_mesh(mesh):`.",
        reference=CHANGELOG,
        names=tuple(sorted(MESHES)),
        pattern=re.compile(rb"^\s*with\b", re.MULTILINE),
        since=(0, 10, 1),
        visit=_mesh_context,
    ),
    Rule(
        code="SL713",
        level=Level.NOTE,
        summary="an AbstractMesh whose axes became Explicit in JAX 0.12",
        advice="Pass axis_types=(AxisType.Auto,) for axes as they were, "
        "or Explicit to keep today's.",
        reference=CHANGELOG,
        names=(_ABSTRACT_MESH,),
        since=(0, 12),
        visit=_abstract_mesh,
    ),
)
