"""The `out_specs` of a shard_map do not say what the collectives in its body did.

A value reduced over an axis is equal along it: mapping that axis in `out_specs` stacks equal
copies. And `P()` for a value that no collective made equal keeps one device's block of it: an
error by default, silence with `check_vma=False`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import axis_of
from shardlift.source.libraries import REDUCTIONS
from shardlift.source.model import GUIDE, Effect, Match, Rule
from shardlift.source.scopes import FUNCTIONS, positional
from shardlift.source.shard_maps import ShardMap

_ACROSS = ("jax.lax.p", "jax.lax.all_", "jax.lax.axis_", "jax.lax.ragged", "jax.experimental")


def visit(file: File) -> Iterator[Match]:
    """One spec for the whole output, against the one return of the body."""
    for shard_map in file.shard_maps:
        spec, body = shard_map.out_spec, shard_map.body
        if spec is None or body is None or not isinstance(body.node, FUNCTIONS):
            continue
        found = list(body.returns())
        if len(found) != 1:
            continue
        node = body.file.definition(found[0])
        where = shard_map.keywords["out_specs"]
        if isinstance(node, ast.Call) and body.file.called(node) in REDUCTIONS:
            axis = axis_of(body.file, node)
            # Over groups of an axis, the groups still differ.
            grouped = any(keyword.arg == "axis_index_groups" for keyword in node.keywords)
            if axis is not None and axis in spec and not grouped:
                yield Match(where, f"equal copies are stacked along {axis!r}: P() keeps one")
        elif spec == () and _stays_local(shard_map):
            yield Match(where, "P() for a value that differs from device to device")


def _stays_local(shard_map: ShardMap) -> bool:
    """Every input is mapped, and the body calls nothing but plain library functions."""
    body = shard_map.body
    assert body is not None
    assert isinstance(body.node, FUNCTIONS)
    names = positional(body.node)
    if not names or not all(shard_map.spec_of(name) for name in names):
        return False
    for call in body.file.index.within(body.node, ast.Call):
        called = body.file.called(call)
        if called is None or not called.startswith(("jax.", "numpy.")):
            return False
        if called.startswith(_ACROSS):
            return False
    return True


_HEAD = "import jax\nfrom jax import lax\nfrom jax.sharding import PartitionSpec as P\n"

RULE = Rule(
    code="SL703",
    name="out-specs-disagree",
    effect=Effect.WRONG,
    summary="out_specs that do not agree with the collectives in the body",
    advice="P() for what was reduced over the axis, P('axis') for what was not.",
    explain=__doc__,
    reference=f"{GUIDE}#collectives",
    visit=visit,
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        _HEAD + "f = jax.shard_map(lambda x: lax.psum(x, 'i'), mesh=m, in_specs=P('i'), "
        "out_specs=P('i'))  # SL703\n",
        _HEAD + "f = jax.shard_map(lambda x: x * 2, mesh=m, in_specs=P('i'), out_specs=P(), "
        "check_vma=False)  # SL703\n",
    ),
    good=(
        _HEAD + "f = jax.shard_map(lambda x: lax.psum(x, 'i'), mesh=m, in_specs=P('i'), "
        "out_specs=P())\n",
        _HEAD + "f = jax.shard_map(lambda x: x * 2, mesh=m, in_specs=P('i'), out_specs=P('i'))\n",
        _HEAD + "f = jax.shard_map(lambda x: lax.psum(x, 'i'), mesh=m, in_specs=P('i', 'j'), "
        "out_specs=P('j'))\n",
        _HEAD + "f = jax.shard_map(lambda x: g(x), mesh=m, in_specs=P('i'), out_specs=P())\n",
        _HEAD + "f = jax.shard_map(lambda x: lax.all_gather(x, 'i'), mesh=m, in_specs=P('i'), "
        "out_specs=P(), check_vma=False)\n",
        _HEAD + "f = jax.shard_map(lambda x, y: x, mesh=m, in_specs=(P(), P('i')), "
        "out_specs=P())\n",
        _HEAD + "f = jax.shard_map(lambda x: lax.psum(x, 'i', axis_index_groups=halves), mesh=m, "
        "in_specs=P('i'), out_specs=P('i'), check_vma=False)\n",
    ),
)
