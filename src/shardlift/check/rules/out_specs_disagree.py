"""The `out_specs` of a shard_map do not match the collectives in its body.

A value that is reduced over an axis is equal along it: mapping that axis in `out_specs` stacks
equal copies. `P()` for a value that differs between devices keeps the block of one device: by
default that is an error, with `check_vma=False` there is none.
"""

import ast
from collections.abc import Iterator

from shardlift.check.rules._examples import LAX
from shardlift.source.file import File
from shardlift.source.idioms import reduced_axis
from shardlift.source.libraries import REDUCTIONS
from shardlift.source.model import GUIDE, Match, Rule
from shardlift.source.scopes import FUNCTIONS, positional
from shardlift.source.shard_maps import ShardMap
from shardlift.source.values import Known

_ARITHMETIC = (ast.BinOp, ast.operator, ast.Name, ast.Constant, ast.expr_context)
_ACROSS = ("jax.lax.p", "jax.lax.all_", "jax.lax.axis_", "jax.lax.ragged", "jax.experimental")


def visit(file: File) -> Iterator[Match]:
    """A single spec for the output that does not match the only return of the body."""
    for shard_map in file.shard_maps:
        spec, body = shard_map.out_spec, shard_map.body
        returned = body.returns() if body is not None else []
        if spec is None or body is None or len(returned) != 1:
            continue
        node = body.file.definition(returned[0])
        where = shard_map.keywords["out_specs"]
        if isinstance(node, ast.Call) and body.file.called(node) in REDUCTIONS:
            axis = reduced_axis(body.file, node)
            if axis is not None and axis in spec:
                yield Match(where, f"equal copies are stacked along {axis!r}: use P()")
        elif spec == () and (_stays_local(shard_map, body) or _adds_local(shard_map, body)):
            yield Match(where, "P() for a value that differs between devices")


def _stays_local(shard_map: ShardMap, body: Known) -> bool:
    """Whether every input is mapped and the body calls only plain library functions."""
    names = positional(body.node) if isinstance(body.node, FUNCTIONS) else []
    if not names or not all(shard_map.spec_of(name) for name in names):
        return False
    called = [body.file.called(call) or "" for call in body.file.index.calls_in[body.node]]
    return all(c.startswith(("jax.", "numpy.")) and not c.startswith(_ACROSS) for c in called)


def _adds_local(shard_map: ShardMap, body: Known) -> bool:
    """Whether the body is nothing but arithmetic with an input that is mapped."""
    node = body.node
    if not isinstance(node, FUNCTIONS):
        return False
    first = node.body if isinstance(node, ast.Lambda) else node.body[0]
    whole = first.value if isinstance(first, ast.Return) else first
    parts = list(ast.walk(whole)) if isinstance(whole, ast.BinOp) else []
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    return all(isinstance(part, _ARITHMETIC) for part in parts) and any(
        name in positional(node) and shard_map.spec_of(name) for name in names
    )


_HEAD = f"{LAX}f = jax.shard_map("

RULE = Rule(
    code="SL703",
    summary="out_specs that do not match the collectives in the body",
    advice="Use P() for a value that is reduced over the axis, and P('axis') for other values.",
    reference=f"{GUIDE}#collectives",
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        f"{_HEAD}lambda x: lax.psum(x, 'i'), mesh=m, in_specs=P('i'), out_specs=P('i'))  # SL703",
        f"{_HEAD}lambda x: x * 2, mesh=m, in_specs=P('i'), out_specs=P())  # SL703",
        f"{LAX}from functools import partial\n@jax.jit\n"
        "@partial(jax.shard_map, mesh=m, in_specs=(P('i'), P()), out_specs=P())  # SL703\n"
        "def f(x, y):\n    return x + y",
    ),
    good=(
        f"{_HEAD}lambda x: lax.psum(x, 'i'), mesh=m, in_specs=P('i'), out_specs=P())",
        f"{_HEAD}lambda x: x * 2, mesh=m, in_specs=P('i'), out_specs=P('i'))",
        f"{_HEAD}lambda x: lax.psum(x, 'i'), mesh=m, in_specs=P('i', 'j'), out_specs=P('j'))",
        f"{_HEAD}lambda x: g(x), mesh=m, in_specs=P('i'), out_specs=P())",
        f"{_HEAD}lambda x: lax.all_gather(x, 'i'), mesh=m, in_specs=P('i'), out_specs=P(), "
        "check_vma=False)",
        f"{_HEAD}lambda x: -x + y(), mesh=m, in_specs=P(), out_specs=P())",
        f"{_HEAD}lambda x: lax.psum(x, 'i', axis_index_groups=halves), mesh=m, in_specs=P('i'), "
        "out_specs=P('i'))",
    ),
)
