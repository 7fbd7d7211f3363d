"""How the outputs of pmapped functions are read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.flax_helpers import Fitness, fitness
from shardlift.source.idioms import first_of_tree_in, is_zero
from shardlift.source.libraries import REPLICATE, UNREPLICATE
from shardlift.source.model import GUIDE, Kind, Level, Match, Rule
from shardlift.source.outputs import (
    device_index,
    fetched_argument,
    is_array,
    is_container,
    may_be_output,
    output_of,
)
from shardlift.source.values import Element, Result


def _first_replica_by_index(file: File) -> Iterator[Match]:
    """`out[0]` and `out[0:1]`, where `out` is an array that a pmapped function returned."""
    for node in file.index.nodes(ast.Subscript):
        if device_index(file, node) is not None:
            what = file.brief(node)
            if not file.many_processes:
                yield Match(node, f"`{what}` gathers a pmap output from all devices")
            else:
                yield Match(node, f"`{what}` gathers across processes and may raise CopyArrays")


def _unreplicate(file: File) -> Iterator[Match]:
    """Every use of flax's helper, and the other forms for trees that come from pmap."""
    for call, tree in file.unreplications:
        if fetched_argument(file, tree) is not None:
            continue
        name = file.called(call) or ""
        if name in UNREPLICATE and fitness(name, file.project.settings) is not Fitness.SLOW:
            continue
        if name in UNREPLICATE or may_be_output(file, tree) or _is_stacked(file, tree):
            across = ", across processes" if file.many_processes else ""
            text = f"every leaf is gathered from all devices{across}, then sliced"
            inner = first_of_tree_in(file, call)
            if inner is None:
                yield Match(call, text)
            else:
                yield Match(call, text, sites=(inner.node,), file=inner.file)


def _is_stacked(file: File, node: ast.expr) -> bool:
    value = file.only(node)
    return isinstance(value, Result) and value.path in REPLICATE


def _arange_over_shards(file: File) -> Iterator[Match]:
    """A pmap output that is indexed by the variable of a loop over `jnp.arange`."""
    for node in file.index.nodes(ast.Subscript):
        if isinstance(node.slice, ast.Name) and isinstance(node.ctx, ast.Load):
            index = file.only(node.slice)
            source = index.of if isinstance(index, Element) else None
            traced = isinstance(source, Result) and source.path == "jax.numpy.arange"
            output = output_of(file, node.value) if traced else None
            if output is not None and not is_container(output):
                yield Match(node, f"`{file.brief(node)}` is a gather in each iteration of the loop")


def _all_replicas_fetched(file: File) -> Iterator[Match]:
    """`[0]` or unreplicate, applied to `jax.device_get` or `np.asarray` of a pmap output."""
    for node in file.index.nodes(ast.Subscript):
        whole = fetched_argument(file, node.value) if is_zero(node.slice) else None
        output = output_of(file, whole) if whole is not None else None
        if output is not None and is_array(output):
            yield Match(node, "all replicas are copied to the host, and only the first is used")
    for call, tree in file.unreplications:
        whole = fetched_argument(file, tree)
        if whole is not None and may_be_output(file, whole):
            yield Match(call, "all replicas are copied to the host, and only the first is used")


RULES = (
    Rule(
        code="SL401",
        level=Level.SLOW,
        summary="x[0] on an output of a pmapped function",
        advice="Return it with out_axes=None, or read x.addressable_shards[0].data.squeeze(0).",
        reference=f"{GUIDE}#int-indexing-into-sharded-arrays",
        words=("pmap",),
        since=(0, 8),
        rewritten_as=frozenset({Kind.READ}),
        visit=_first_replica_by_index,
    ),
    Rule(
        code="SL402",
        level=Level.SLOW,
        summary="unreplicate, or a tree map of x[0], on a pmap output",
        advice="Read x.addressable_shards[0].data.squeeze(0) of each leaf, or use out_axes=None.",
        reference=f"{GUIDE}#the-unreplicate-anti-pattern",
        words=("pmap", "jax_utils", "common_utils"),
        since=(0, 8),
        holds_for=((0, 10, 2), (0, 12, 2)),
        rewritten_as=frozenset({Kind.READ, Kind.PLACEMENT}),
        visit=_unreplicate,
    ),
    Rule(
        code="SL403",
        level=Level.SLOW,
        summary="a loop over jnp.arange that indexes a pmap output",
        advice="Loop over x.addressable_shards or range().",
        reference=f"{GUIDE}#jaxruntimeerror-invalid-argument-copyarrays-same-size",
        words=("pmap",),
        since=(0, 8),
        visit=_arange_over_shards,
    ),
    Rule(
        code="SL404",
        level=Level.SLOW,
        summary="device_get of all replicas where one is used",
        advice="Fetch only x.addressable_shards[0].data, or return it with out_axes=None.",
        reference=f"{GUIDE}#option-2-access-local-data-directly",
        words=("pmap",),
        visit=_all_replicas_fetched,
    ),
)
