"""A description of a pmapped call: ``pmapped.explain(*args)``."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec

from shardlift import _compat
from shardlift.arrays.paths import type_of
from shardlift.mapping.ahead_of_time import use_program
from shardlift.mapping.axes import prefix_leaves, spec_of
from shardlift.mapping.site import MappedFunction

COLLECTIVES = {
    "psum", "pmax", "pmin", "all_gather", "all_to_all", "ppermute", "pbroadcast", "pgather",
    "reduce_scatter", "axis_index", "psum_invariant", "all_gather_invariant", "ragged_all_to_all",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class ExplainedLeaf:
    """An argument or output of a pmapped call, as the mesh sees it."""

    name: str
    type: str
    spec: PartitionSpec
    donated: bool = False

    def __str__(self) -> str:
        spec = f"P({', '.join(map(repr, self.spec))})"
        return f"{self.name}: {self.type}, {spec}{', donated' if self.donated else ''}"


@dataclasses.dataclass(frozen=True)
class Explanation:
    """A description of one call; prints as a few lines."""

    name: str
    mesh: Mesh
    inputs: tuple[ExplainedLeaf, ...]
    outputs: tuple[ExplainedLeaf, ...]
    collectives: tuple[tuple[str, tuple[Hashable, ...], int], ...]  # kind, axes, how often

    def __str__(self) -> str:
        axes = ", ".join(f"{name}: {size}" for name, size in self.mesh.shape.items())
        devices = " ".join(f"{d.platform}:{d.id}" for d in self.mesh.devices.flat)
        exchanged = [
            f"{kind} over {', '.join(map(str, names))}" + (f", {times} times" if times > 1 else "")
            for kind, names, times in self.collectives
        ]
        sections = {
            "mesh": [f"({axes}) on {devices}"],
            "arguments": [*map(str, self.inputs)],
            "outputs": [*map(str, self.outputs)],
            "collectives": exchanged or ["none"],
        }
        lines = [f"pmap of {self.name}"]
        for title, body in sections.items():
            lines += [f"  {title}", *(f"    {line}" for line in body)]
        return "\n".join(lines)


def explain(site: MappedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
    """Describe a call from its trace; nothing is computed."""
    call = site.take_apart(args, kwargs)
    traced, plan = use_program(site, args, kwargs, lambda program, a, k: program.trace(*a, **k))
    inputs = [
        ExplainedLeaf(name, type_of(jax.typeof(leaf)), spec_of(axis, plan.label), donated)
        for name, leaf, axis, donated in zip(
            site.names(call), call.leaves, call.axes, site.donated(call), strict=True
        )
    ]
    collectives = Counter(
        (eqn.primitive.name, _compat.collective_axes(eqn))
        for eqn in _compat.equations(traced.jaxpr.jaxpr)
        if eqn.primitive.name in COLLECTIVES
    )
    out_axes = prefix_leaves(site.options.out_axes, traced.out_info, "out_axes")
    out_leaves = jax.tree_util.tree_flatten_with_path(traced.out_info)[0]
    outputs = [
        ExplainedLeaf(
            f"output{jax.tree_util.keystr(path)}", type_of(info), spec_of(axis, plan.label)
        )
        for (path, info), axis in zip(out_leaves, out_axes, strict=True)
    ]
    return Explanation(
        name=site.name,
        mesh=plan.mesh,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        collectives=tuple((kind, axes, times) for (kind, axes), times in collectives.items()),
    )
