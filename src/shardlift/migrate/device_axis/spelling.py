"""The new text of each place: instead of `replicate`, `shard`, and the calls that read rows."""

from __future__ import annotations

import ast
import io
import tokenize

from shardlift.migrate.call_format import Style
from shardlift.migrate.device_axis.cells import Point, Role
from shardlift.migrate.names import is_free, is_shadowed, jax_name
from shardlift.source.file import File
from shardlift.source.model import Edit
from shardlift.source.scopes import end, position
from shardlift.source.statements import delete, is_only_statement
from shardlift.source.values import External

PUT = "put_on_every_device"
PREFETCH = "prefetch_to_device"
_FLAX_PREFETCH = "flax.jax_utils.prefetch_to_device"
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
_READS = (Role.FIRST, Role.INDEX, Role.METRICS)
_REWRITTEN = (Role.REPLICATE, Role.SHARD, *_READS)
_SIMPLE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)


def in_the_way(point: Point) -> str | None:
    """Why the text of a use cannot be changed."""
    file, node = point.at.file, point.at.node
    if file.source.cells is not None:
        return "it is in a notebook, whose cells may run in any order"
    changed = point.role in _REWRITTEN
    if changed and _has_comment(file, node):
        return f"there are comments inside `{file.brief(node)}` at {point.at}"
    if point.role is Role.REPLICATE and not is_free(file, node, PUT):
        return f"the name `{PUT}` means something else at {point.at}"
    if point.role in _READS and is_shadowed(file, node, jax_name(file)[0]):
        return f"the name `{jax_name(file)[0]}` means something else at {point.at}"
    if point.role is Role.METRICS and not isinstance(_function(node), ast.Attribute):
        return f"get_metrics at {point.at} is imported by its name"
    if point.role is Role.PREFETCH and not is_free(file, node, PREFETCH, _FLAX_PREFETCH):
        return f"the name `{PREFETCH}` means something else at {point.at}"
    return None


def _function(node: ast.AST) -> ast.expr:
    assert isinstance(node, ast.Call)
    return node.func


def _has_comment(file: File, node: ast.AST) -> bool:
    text = file.text(node)
    if "#" not in text:
        return False
    try:
        tokens = tokenize.generate_tokens(io.StringIO(f"({text})").readline)
        return any(token.type == tokenize.COMMENT for token in tokens)
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return True


def replicated(made: Point, axis_name: str | None) -> list[Edit]:
    """`replicate(x)` becomes a copy of `x` on every device."""
    file = made.at.file
    assert made.inner is not None
    axis = f", {Style.of(file.source.text).string(axis_name)}" if axis_name is not None else ""
    return _around(file, made.at.node, made.inner, f"{PUT}(", f"{axis})")


def unsharded(made: Point) -> list[Edit]:
    """`shard(x)` becomes `x`; an assignment of a name to itself is removed."""
    file, node = made.at.file, made.at.node
    assert made.inner is not None
    statement = file.index.parents.get(node)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        same = isinstance(target, ast.Name) and isinstance(made.inner, ast.Name)
        alone = same and target.id == made.inner.id  # type: ignore[attr-defined]
        if alone and not is_only_statement(file, statement):
            return [delete(file, statement)]
    return _around(file, node, made.inner, "", "")


def first(use: Point, donated: bool) -> tuple[list[Edit], frozenset[str]]:
    """`unreplicate(x)` becomes `x`, or a copy of `x` if `x` may be donated later."""
    file, node = use.at.file, use.at.node
    assert use.inner is not None
    if not donated or _is_read_now(file, node):
        return _around(file, node, use.inner, "", ""), frozenset()
    jax, imports = jax_name(file)
    copy = f"{_numpy_name(file, jax)}.copy"
    if use.role is Role.INDEX:
        return _around(file, node, use.inner, f"{copy}(", ")"), imports
    return _around(file, node, use.inner, f"{jax}.tree.map({copy}, ", ")"), imports


def metrics(use: Point) -> tuple[list[Edit], frozenset[str]]:
    """flax's `get_metrics` becomes its second half: the first half takes the first row."""
    file, node = use.at.file, use.at.node
    function = _function(node)
    assert isinstance(function, ast.Attribute)
    assert use.inner is not None
    jax, imports = jax_name(file)
    module = file.text(function.value)
    opening = f"{module}.stack_forest({jax}.device_get("
    return _around(file, node, use.inner, opening, "))"), imports


def prefetched(use: Point) -> list[Edit]:
    """flax's `prefetch_to_device` becomes the helper, which splits the first axis."""
    return [use.at.file.replace(_function(use.at.node), PREFETCH)]


def _around(file: File, node: ast.AST, inner: ast.expr, opening: str, closing: str) -> list[Edit]:
    if not opening and not closing and not isinstance(inner, _SIMPLE):
        opening, closing = "(", ")"
    return [
        Edit(file.stretch(*position(node), *position(inner)), opening),
        Edit(file.stretch(*end(inner), *end(node)), closing),
    ]


def _is_read_now(file: File, node: ast.AST) -> bool:
    """Whether a value is read immediately, so that donating it later does no harm."""
    parent = file.index.parents.get(node)
    while isinstance(parent, (ast.Attribute, ast.Subscript)) and parent.value is node:
        if isinstance(parent, ast.Attribute) and parent.attr in ("item", "tolist"):
            return True
        node, parent = parent, file.index.parents.get(parent)
    while isinstance(parent, (ast.keyword, ast.Tuple, ast.List, ast.Dict)):
        node, parent = parent, file.index.parents.get(parent)
    if isinstance(parent, ast.FormattedValue):
        return True
    return (
        isinstance(parent, ast.Call) and node is not parent.func and file.called(parent) in _READERS
    )


def _numpy_name(file: File, jax: str) -> str:
    """The name of `jax.numpy` in a file."""
    for name, bound in file.index.module.names.items():
        alias = bound[0] if len(bound) == 1 else None
        if isinstance(alias, ast.alias) and file.resolver.bound(alias) == (External("jax.numpy"),):
            return name
    return f"{jax}.numpy"
