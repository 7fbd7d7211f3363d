"""A shard_mapped function is called without `jax.jit` around it.

It then runs one operation at a time, each dispatched to all devices. Measured on 8 CPU devices:
170 ms per call instead of 0.9 ms. Reported at module level only, where no jit can be around it.
"""

import ast
from collections.abc import Iterator

from shardlift.check.rules._examples import SPECS
from shardlift.check.transforms import decorating_transform
from shardlift.source.file import File
from shardlift.source.model import GUIDE, Level, Match, Rule
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.shard_maps import SHARD_MAPS
from shardlift.source.values import Known, Result


def visit(file: File) -> Iterator[Match]:
    """Calls at module level of functions that shard_map returned."""
    bodies = (s.body for s in file.shard_maps if s.decorates and s.body is not None)
    eager = {body.node for body in bodies if not _is_jitted(body)}
    for call in file.index.nodes(ast.Call):
        if any(isinstance(parent, FUNCTIONS) for parent in file.index.ancestors(call)):
            continue
        value = file.only(call.func)
        direct = isinstance(value, Result) and value.path in SHARD_MAPS and bool(value.call.args)
        if direct or (isinstance(value, Known) and value.node in eager):
            yield Match(call, "shard_map without jit runs one operation at a time")


def _is_jitted(function: Known) -> bool:
    decorators: list[ast.expr] = getattr(function.node, "decorator_list", [])
    return any(decorating_transform(function.file, node) == "jax.jit" for node in decorators)


_HEAD = f"{SPECS}from functools import partial\n"
_MAPPED = "jax.shard_map(f, mesh=m, in_specs=P('i'), out_specs=P('i'))"
_DECORATED = (
    "@partial(jax.shard_map, mesh=m, in_specs=P('i'), out_specs=P('i'))\ndef g(x):\n    return x\n"
)

RULE = Rule(
    code="SL710",
    level=Level.SLOW,
    summary="a shard_mapped function is called without jit",
    advice="Use jax.jit(jax.shard_map(...)), with donate_argnums as an argument of jit.",
    reference=f"{GUIDE}#rewriting-pmap-to-jit-shard-map",
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(f"{_HEAD}g = {_MAPPED}\ny = g(x)  # SL710", f"{_HEAD}{_DECORATED}y = g(x)  # SL710"),
    good=(
        f"{_HEAD}g = jax.jit({_MAPPED})\ny = g(x)",
        f"{_HEAD}@jax.jit\n{_DECORATED}y = g(x)",
        f"{_HEAD}g = {_MAPPED}\n@jax.jit\ndef step(x):\n    return g(x)",
    ),
)
