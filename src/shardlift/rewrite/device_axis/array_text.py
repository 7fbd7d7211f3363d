"""The new text of each place: instead of `replicate`, `shard`, and the calls that read rows."""

from __future__ import annotations

import ast

from shardlift.rewrite.call_format import CallText, Style, render
from shardlift.rewrite.device_axis.cells import CellRole, Point, WeakTypes
from shardlift.rewrite.device_axis.reasons import Advice, Obstacle, ObstacleKind, obstacle
from shardlift.rewrite.names import is_free, is_shadowed, jax_name
from shardlift.source.file import File
from shardlift.source.flax_helpers import has_new_helpers
from shardlift.source.model import Edit
from shardlift.source.scopes import end, position
from shardlift.source.statements import delete
from shardlift.source.text import has_comment
from shardlift.source.values import External

PREFETCH = "prefetch_to_device"
_FLAX_PREFETCH = "flax.jax_utils.prefetch_to_device"
# Functions that read a value before they return, and do not keep it; the first ones also one that
# is on devices of other processes, if it is whole here.
_ON_HOST = frozenset(
    {
        "jax.device_get", "numpy.asarray", "numpy.array", "builtins.float", "builtins.int",
        "builtins.print", "builtins.bool", "builtins.str", "builtins.repr", "builtins.format",
    }
)  # fmt: skip
_READERS = _ON_HOST | frozenset(
    {
        "flax.training.checkpoints.save_checkpoint", "flax.serialization.to_bytes",
        "flax.training.checkpoints.save_checkpoint_multiprocess", "pickle.dump", "pickle.dumps",
        "flax.serialization.msgpack_serialize", "flax.serialization.to_state_dict",
    }
)  # fmt: skip
_READS = (CellRole.FIRST, CellRole.INDEX, CellRole.METRICS)
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
        return obstacle(ObstacleKind.COMMENTS, Advice.MOVE_COMMENTS, **about)
    if point.role in _READS and is_shadowed(file, node, jax_name(file)[0]):
        return _means_another(jax_name(file)[0], point)
    if point.role is CellRole.METRICS and not isinstance(_function(node), ast.Attribute):
        return obstacle(ObstacleKind.METRICS_BY_NAME, Advice.IMPORT_MODULE, at=point.at)
    is_replaced = point.role is CellRole.PREFETCH and not has_new_helpers(file.project.settings)
    if is_replaced and not is_free(file, node, PREFETCH, _FLAX_PREFETCH):
        return _means_another(PREFETCH, point)
    return None


def _means_another(name: str, point: Point) -> Obstacle:
    return obstacle(ObstacleKind.NAME_TAKEN, Advice.RENAME, name=name, at=point.at)


def _function(node: ast.AST) -> ast.expr:
    assert isinstance(node, ast.Call)
    return node.func


def placed(made: Point, sharding: str, weak_types: WeakTypes) -> tuple[list[Edit], frozenset[str]]:
    """`replicate(x)` becomes a copy of `x`, whole on every device.

    Without the copy the arrays share memory with `x` (JAX 0.10.2 and 0.12, with `may_alias=False`
    as well): donating them deletes `x`, and donating a tree that has `x` twice is an error.
    """
    file = made.at.file
    assert made.inner is not None
    text, stand_in = _placed_text(made, sharding, weak_types)
    imports = jax_name(file)[1] | _copy(file, weak_types)[1]
    return text_around(file, made.at.node, made.inner, *text.split(stand_in)), imports


def fits_on_a_line(made: Point, sharding: str, weak_types: WeakTypes) -> bool:
    """Whether the text of `placed` has no more lines than the tree."""
    return "\n" not in _placed_text(made, sharding, weak_types)[0]


def _placed_text(made: Point, sharding: str, weak_types: WeakTypes) -> tuple[str, str]:
    """The text of `placed`, and what stands for the tree in it."""
    file = made.at.file
    assert made.inner is not None
    jax = jax_name(file)[0]
    stand_in = _PLACE.ljust(len(file.text(made.inner)), "x")
    copied = CallText(f"{jax}.tree.map", (_copy(file, weak_types)[0], stand_in))
    return laid_out(file, made.at.node, CallText(f"{jax}.device_put", (copied, sharding))), stand_in


def _copy(file: File, weak_types: WeakTypes) -> tuple[str, frozenset[str]]:
    """A function that copies a leaf with the type that pmap gave it, and what it imports."""
    jax = jax_name(file)[0]
    copy = f"{numpy_name(file, jax)}.copy"
    if weak_types is WeakTypes.KEPT:
        return copy, frozenset()
    name = _name_of(file, "numpy")
    numpy = name or ("numpy" if "np" in file.index.module.names else "np")
    alias = " as np" if numpy == "np" else ""
    imports = frozenset({f"import numpy{alias}"} if name is None else ())
    if weak_types is WeakTypes.ALL_TYPED:
        return f"{numpy}.array", imports
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


def first(use: Point, donated: bool, shared: bool) -> tuple[list[Edit], frozenset[str]]:
    """`unreplicate(x)` becomes `x`, or a copy of `x` if `x` may be donated later.

    Of an array that is shared by processes, it becomes the copy on the first device of this one.
    """
    file, node = use.at.file, use.at.node
    assert use.inner is not None
    if is_read_now(file, node, shared) or not (donated or shared):
        return without_call(use), frozenset()
    jax, imports = jax_name(file)
    copy = f"{numpy_name(file, jax)}.copy"
    if shared:
        opening, closing = (f"{copy}(", ")") if donated else ("", "")
        local = f"lambda x: {opening}x.addressable_data(0){closing}"
        if use.role is CellRole.FIRST or not isinstance(use.inner, _SIMPLE):
            return text_around(file, node, use.inner, f"{jax}.tree.map({local}, ", ")"), imports
        return text_around(
            file, node, use.inner, opening, f".addressable_data(0){closing}"
        ), imports
    if use.role is CellRole.INDEX:
        return text_around(file, node, use.inner, f"{copy}(", ")"), imports
    return text_around(file, node, use.inner, f"{jax}.tree.map({copy}, ", ")"), imports


def metrics(use: Point) -> tuple[list[Edit], frozenset[str]]:
    """flax's `get_metrics` becomes its second half: the first half takes the first row."""
    file, node = use.at.file, use.at.node
    function = _function(node)
    assert isinstance(function, ast.Attribute)
    assert use.inner is not None
    jax, imports = jax_name(file)
    module = file.text(function.value)
    opening = f"{module}.stack_forest({jax}.device_get("
    return text_around(file, node, use.inner, opening, "))"), imports


def prefetched(use: Point) -> list[Edit]:
    """flax's `prefetch_to_device` becomes the helper, which splits the first axis."""
    return [use.at.file.replace(_function(use.at.node), PREFETCH)]


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


def is_read_now(file: File, node: ast.AST, shared: bool = False) -> bool:
    """Whether a value is read immediately, so that donating it later does no harm.

    A row of an array that is shared by processes cannot be taken by one of them alone.
    """
    parent = file.index.parents.get(node)
    readers = _ON_HOST if shared else _READERS
    while isinstance(parent, (ast.Attribute, ast.Subscript)) and parent.value is node:
        if isinstance(parent, ast.Attribute) and parent.attr in ("item", "tolist"):
            return True
        if shared and not (isinstance(parent, ast.Attribute) or _is_key(parent.slice)):
            return False
        node, parent = parent, file.index.parents.get(parent)
    while isinstance(parent, (ast.keyword, ast.Tuple, ast.List, ast.Dict)):
        node, parent = parent, file.index.parents.get(parent)
    if isinstance(parent, ast.FormattedValue):
        return True
    return (
        isinstance(parent, ast.Call) and node is not parent.func and file.called(parent) in readers
    )


def _is_key(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


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
