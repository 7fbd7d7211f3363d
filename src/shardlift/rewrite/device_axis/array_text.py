"""The new text of each place: instead of `replicate`, `shard`, and the calls that read rows."""

from __future__ import annotations

import ast

from shardlift.rewrite.call_format import CallText, Style, render
from shardlift.rewrite.device_axis.cells import CellRole, Point
from shardlift.rewrite.device_axis.reasons import Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.names import is_shadowed, jax_name
from shardlift.source.file import File
from shardlift.source.model import Edit
from shardlift.source.scopes import end, position
from shardlift.source.statements import delete
from shardlift.source.text import has_comment
from shardlift.source.values import External

# Functions that read a value before they return, and do not keep it.
_READERS = frozenset(
    {
        "jax.device_get", "numpy.asarray", "numpy.array", "builtins.float", "builtins.int",
        "builtins.print", "builtins.bool", "builtins.str", "builtins.repr", "builtins.format",
        "flax.training.checkpoints.save_checkpoint", "flax.serialization.to_bytes",
        "flax.training.checkpoints.save_checkpoint_multiprocess", "pickle.dump", "pickle.dumps",
        "flax.serialization.msgpack_serialize", "flax.serialization.to_state_dict",
    }
)  # fmt: skip
_READS = (CellRole.FIRST, CellRole.INDEX)
_REWRITTEN = (CellRole.REPLICATE, CellRole.SHARD, *_READS)
_PLACE = "\0"  # stands for a tree while the text around it is laid out
_SIMPLE = (
    ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.Dict, ast.List,
    ast.DictComp, ast.ListComp,
)  # fmt: skip


def in_the_way(point: Point) -> Obstacle | None:
    """Why the text of a use cannot be changed."""
    file, node = point.at.file, point.at.node
    changed = point.role in _REWRITTEN
    if changed and has_comment(f"({file.text(node)})"):
        about = {"text": file.brief(node), "at": point.at}
        return obstacle(ObstacleKind.COMMENTS, **about)
    if point.role in _READS and is_shadowed(file, node, jax_name(file)[0]):
        return obstacle(ObstacleKind.NAME_TAKEN, name=jax_name(file)[0], at=point.at)
    return None


def placed(made: Point, sharding: str, typed: bool) -> tuple[list[Edit], frozenset[str]]:
    """`replicate(x)` becomes a copy of `x`, whole on every device; `typed`: numbers get a type.

    Without the copy the arrays share memory with `x` (JAX 0.10.2 and 0.12, with `may_alias=False`
    as well): donating them deletes `x`, and donating a tree that has `x` twice is an error.
    """
    file = made.at.file
    assert made.inner is not None
    jax, imports = jax_name(file)
    copy, imported = _copy(file, typed)
    stand_in = _PLACE.ljust(len(file.text(made.inner)), "x")
    copied = CallText(f"{jax}.tree.map", (copy, stand_in))
    text = laid_out(file, made.at.node, CallText(f"{jax}.device_put", (copied, sharding)))
    opening, closing = text.split(stand_in)
    return text_around(file, made.at.node, made.inner, opening, closing), imports | imported


def _copy(file: File, typed: bool) -> tuple[str, frozenset[str]]:
    """A function that copies a leaf with the type that pmap gave it, and what it imports."""
    jax = jax_name(file)[0]
    copy = f"{numpy_name(file, jax)}.copy"
    if not typed:
        return copy, frozenset()
    name = _name_of(file, "numpy")
    numpy = name or ("numpy" if "np" in file.index.module.names else "np")
    alias = " as np" if numpy == "np" else ""
    imports = frozenset({f"import numpy{alias}"} if name is None else ())
    return f"lambda x: {copy}(x) if isinstance(x, {jax}.Array) else {numpy}.array(x)", imports


def laid_out(file: File, node: ast.AST, call: CallText) -> str:
    """The text of a call that takes the place of a node."""
    (line, column), (last, column_after) = position(node), end(node)
    after = max(len(file.lines[last - 1].rstrip()) - column_after, 0)
    return render(call, Style.of(file.source.text), file.margin(line), column, after)


def own_assignment(point: Point) -> ast.Assign | None:
    """`x = unreplicate(x)`, which would become `x = x`."""
    statement = point.at.file.index.parents.get(point.at.node)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, inner = statement.targets[0], point.inner
    is_plain = isinstance(target, (ast.Name, ast.Tuple)) and isinstance(
        inner, (ast.Name, ast.Tuple)
    )
    same = is_plain and ast.unparse(target) == ast.unparse(inner)  # type: ignore[arg-type]
    return statement if same else None


def without_call(point: Point) -> list[Edit]:
    """A call that becomes its argument, as `shard(x)`. An assignment to itself is removed."""
    assert point.inner is not None
    statement = own_assignment(point)
    if statement is not None:
        return [delete(point.at.file, statement)]
    return text_around(point.at.file, point.at.node, point.inner)


def first(use: Point, donated: bool) -> tuple[list[Edit], frozenset[str]]:
    """`unreplicate(x)` becomes `x`, or a copy of `x` if `x` may be donated later."""
    file, node = use.at.file, use.at.node
    assert use.inner is not None
    if not donated or is_read_now(file, node):
        return without_call(use), frozenset()
    jax, imports = jax_name(file)
    copy = f"{numpy_name(file, jax)}.copy"
    opening = f"{copy}(" if use.role is CellRole.INDEX else f"{jax}.tree.map({copy}, "
    return text_around(file, node, use.inner, opening, ")"), imports


def text_around(
    file: File, node: ast.AST, inner: ast.expr, opening: str = "", closing: str = ""
) -> list[Edit]:
    """An expression in the place of one that it is a part of, with other text around it."""
    is_simple = isinstance(inner, (*_SIMPLE, ast.Tuple))  # an argument has its parentheses
    if not opening and not closing and not is_simple:
        opening, closing = "(", ")"
    return [
        Edit(file.stretch(*position(node), *position(inner)), opening),
        Edit(file.stretch(*end(inner), *end(node)), closing),
    ]


def is_read_now(file: File, node: ast.AST) -> bool:
    """Whether a value is read immediately, so that donating it later does no harm."""
    parent = file.index.parents.get(node)
    while isinstance(parent, (ast.Attribute, ast.Subscript)) and parent.value is node:
        if isinstance(parent, ast.Attribute) and parent.attr in ("item", "tolist"):
            return True
        node, parent = parent, file.index.parents.get(parent)
    while isinstance(parent, (ast.keyword, ast.Tuple, ast.List, ast.Dict)):
        node, parent = parent, file.index.parents.get(parent)
    is_given = isinstance(parent, ast.Call) and node is not parent.func
    return isinstance(parent, ast.FormattedValue) or (is_given and file.called(parent) in _READERS)


def numpy_name(file: File, jax: str) -> str:
    """The name of `jax.numpy` in a file that calls jax `jax`."""
    return _name_of(file, "jax.numpy") or f"{jax}.numpy"


def _name_of(file: File, module: str) -> str | None:
    """The name of a module in a file."""
    for name, bound in file.index.module.names.items():
        alias = bound[0] if len(bound) == 1 else None
        if isinstance(alias, ast.alias) and file.resolver.bound(alias) == (External(module),):
            return name
    return None
