"""The body of a shard_map closes over an array that is sharded.

shard_map does not split it: the body sees the whole array and broadcasts against it. On one device
the result is right; on eight, an `(8, 3)` result becomes `(64, 3)` without any error.
"""

import ast
from collections.abc import Iterator

from shardlift.check.rules._examples import SPECS
from shardlift.source.file import File
from shardlift.source.model import SHARD_MAP, Match, Rule
from shardlift.source.shard_maps import placed_spec
from shardlift.source.values import Output


def visit(file: File) -> Iterator[Match]:
    """Free variables of the body that are placed with a non-empty spec, or come from pmap."""
    for shard_map in file.shard_maps:
        body = shard_map.function
        seen: set[str] = set()
        for name in file.index.within(body, ast.Name) if body is not None else ():
            if name.id not in seen and _is_free(file, name, body) and _is_sharded(file, name):
                seen.add(name.id)
                yield Match(name, f"`{name.id}` is sharded, but the body sees the whole array")


def _is_free(file: File, name: ast.Name, body: ast.AST | None) -> bool:
    """Whether a name is read here and bound outside the body."""
    scope, _ = file.index.binding_scope(name)
    if scope is None or not isinstance(name.ctx, ast.Load):
        return False
    return body not in (scope.node, *file.index.ancestors(scope.node))


def _is_sharded(file: File, node: ast.expr) -> bool:
    if isinstance(file.only(node), Output):
        return True
    return any(entry is not None for entry in placed_spec(file, node) or ())


_HEAD = f"{SPECS}w = jax.device_put(w, jax.NamedSharding(mesh, P('i')))\n"
_CALL = "g = jax.shard_map(f, mesh=mesh, in_specs=P('i'), out_specs=P('i'))"

RULE = Rule(
    code="SL709",
    summary="a shard_map body closes over a sharded array",
    advice="Pass it as an argument with its own spec.",
    reference=SHARD_MAP,
    names=("jax.shard_map", "jax.experimental.shard_map"),
    bad=(
        f"{_HEAD}def f(x):\n    return x + w  # SL709\n{_CALL}",
        f"{SPECS}p = jax.pmap(init)\nw = p(keys)\ndef f(x):\n    return x + w  # SL709\n{_CALL}",
    ),
    good=(
        f"{_HEAD}def f(x, w):\n    return x + w\n{_CALL}",
        f"{SPECS}w = jax.device_put(w, jax.NamedSharding(mesh, P()))\n"
        f"def f(x):\n    return x + w\n{_CALL}",
        f"{SPECS}def f(x):\n    return x + w\n{_CALL}",
        f"{_HEAD}def f(x):\n    w = x\n    return x + w\n{_CALL}",
    ),
)
