"""The body of a shard_map closes over an array that is sharded.

It is not cut to this device's block: the body sees all of it, and broadcasts against it. With one
device nothing is wrong; with eight, an `(8, 3)` result becomes `(64, 3)`, without a word.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.model import SHARD_MAP, Effect, Match, Rule
from shardlift.source.scopes import FUNCTIONS, Function
from shardlift.source.shard_maps import spec
from shardlift.source.values import Output, Result

_SHARDINGS = ("jax.NamedSharding", "jax.sharding.NamedSharding")


def visit(file: File) -> Iterator[Match]:
    """A free variable of the body that was placed with a non-empty spec, or that pmap returned."""
    for shard_map in file.shard_maps:
        body = shard_map.body
        if body is None or body.file is not file or not isinstance(body.node, FUNCTIONS):
            continue
        seen: set[str] = set()
        for name in file.index.within(body.node, ast.Name):
            free = isinstance(name.ctx, ast.Load) and _is_free(file, name, body.node)
            if free and name.id not in seen and _is_sharded(file, name):
                seen.add(name.id)
                yield Match(name, f"`{name.id}` is sharded, and the body sees the whole of it")


def _is_free(file: File, name: ast.Name, body: Function) -> bool:
    scope = file.index.scope_of.get(name)
    while scope is not None:
        if name.id in scope.names:
            return True
        if scope.node is body:
            scope = scope.parent
            while scope is not None:
                if name.id in scope.names:
                    return True
                scope = scope.parent
            return False
        scope = scope.parent
    return False


def _is_sharded(file: File, node: ast.expr) -> bool:
    value = file.only(node)
    if isinstance(value, Output):
        return True
    if not isinstance(value, Result) or value.path != "jax.device_put" or len(value.call.args) < 2:
        return False
    place = value.file.definition(value.call.args[1])
    if not isinstance(place, ast.Call) or value.file.called(place) not in _SHARDINGS:
        return False
    entries = spec(value.file, place.args[1]) if len(place.args) == 2 else None
    return bool(entries) and any(entry is not None for entry in entries or ())


_HEAD = (
    "import jax\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n"
    "w = jax.device_put(w, NamedSharding(mesh, P('i')))\n"
)

RULE = Rule(
    code="SL709",
    name="closed-over-sharded",
    effect=Effect.WRONG,
    summary="a shard_map body closes over a sharded array",
    advice="Pass it as an argument, with a spec of its own.",
    explain=__doc__,
    reference=SHARD_MAP,
    visit=visit,
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        _HEAD + "def f(x):\n    return x + w  # SL709\n"
        "g = jax.shard_map(f, mesh=mesh, in_specs=P('i'), out_specs=P('i'))\n",
        "import jax\nfrom jax.sharding import PartitionSpec as P\np = jax.pmap(init)\n"
        "state = p(keys)\ndef f(x):\n    return x + state  # SL709\n"
        "g = jax.shard_map(f, mesh=mesh, in_specs=P('i'), out_specs=P('i'))\n",
    ),
    good=(
        _HEAD + "def f(x, w):\n    return x + w\n"
        "g = jax.shard_map(f, mesh=mesh, in_specs=P('i'), out_specs=P('i'))\n",
        "import jax\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n"
        "w = jax.device_put(w, NamedSharding(mesh, P()))\ndef f(x):\n    return x + w\n"
        "g = jax.shard_map(f, mesh=mesh, in_specs=P('i'), out_specs=P('i'))\n",
        _HEAD + "def f(x):\n    return x + w\ng = jax.jit(f)\n",
        "import jax\nfrom jax.sharding import PartitionSpec as P\ndef f(x):\n    return x + w\n"
        "g = jax.shard_map(f, mesh=mesh, in_specs=P('i'), out_specs=P('i'))\n",
        _HEAD + "def f(x):\n    w = x\n    return x + w\n"
        "g = jax.shard_map(f, mesh=mesh, in_specs=P('i'), out_specs=P('i'))\n",
    ),
)
