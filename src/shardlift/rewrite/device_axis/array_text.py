"""The new text of each place: instead of `replicate`, `shard`, and the calls that read rows."""

import ast
from collections.abc import Iterator

from shardlift.check.renames import known_as
from shardlift.rewrite.call_format import CallText, Style, render
from shardlift.rewrite.device_axis.cells import Cell, CellRole, Point
from shardlift.rewrite.device_axis.site_text import Meshes
from shardlift.rewrite.device_axis.solve import READS
from shardlift.rewrite.forms import around
from shardlift.rewrite.names import jax_name
from shardlift.source.file import File
from shardlift.source.model import Edit, HelperRequest, Kind, Match
from shardlift.source.scopes import end, position
from shardlift.source.statements import delete

# Functions that read a value before they return, and do not keep it.
_READERS = frozenset({
    "jax.device_get", "numpy.asarray", "numpy.array", "builtins.float", "builtins.int",
    "builtins.print", "builtins.bool", "builtins.str", "builtins.repr", "builtins.format",
    "flax.training.checkpoints.save_checkpoint", "flax.serialization.to_bytes",
    "flax.training.checkpoints.save_checkpoint_multiprocess", "pickle.dump", "pickle.dumps",
    "flax.serialization.msgpack_serialize", "flax.serialization.to_state_dict",
})  # fmt: skip
_PLACE = "\0"  # stands for a tree while the text around it is laid out
_SIMPLE = (
    ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.Dict, ast.List,
    ast.DictComp, ast.ListComp, ast.Tuple,  # which has parentheses where it is an argument
)  # fmt: skip


def rewrite_places(root: Cell, meshes: Meshes) -> Iterator[tuple[File, Match]]:
    """The changes of the places that make and use the values of a class, each once."""
    mapped = [use for use in root.uses if use.role is CellRole.ARGUMENT]
    is_donated = any(use.site and use.position in use.site.donated for use in mapped)
    points = {(point.at.node, point.role): point for point in reversed(root.points)}
    for point in reversed(points.values()):
        imports, helpers = frozenset[str](), frozenset[HelperRequest]()
        if point.role is CellRole.REPLICATE:
            edits, imports, helpers = _placed(point, mapped, meshes)
        elif point.role is CellRole.SHARD:
            edits = _without_call(point)
        elif point.role in READS:
            edits, imports = _read(point, is_donated)
        else:
            continue
        file, node = point.at.file, point.at.node
        yield file, Match(node, "", tuple(edits), imports, helpers, kind=Kind.DEVICE_AXIS)


def _placed(
    made: Point, mapped: list[Point], meshes: Meshes
) -> tuple[list[Edit], frozenset[str], frozenset[HelperRequest]]:
    """`replicate(x)` becomes a copy of `x`, whole on every device.

    Without the copy the arrays share memory with `x` (JAX 0.10.2 and 0.12, with `may_alias=False`
    as well): donating them deletes `x`, and donating a tree that has `x` twice is an error.
    """
    file, inner = made.at.file, made.inner
    assert inner is not None
    jax, imports = jax_name(file)
    copy = f"{known_as(file, made.at.node, 'jax.numpy') or f'{jax}.numpy'}.copy"
    if made.types_numbers:
        name = known_as(file, made.at.node, "numpy")
        numpy = name or ("numpy" if "np" in file.index.module.names else "np")
        if name is None:
            imports |= {"import numpy" if numpy == "numpy" else "import numpy as np"}
        copy = f"lambda x: {copy}(x) if isinstance(x, {jax}.Array) else {numpy}.array(x)"
    named = (use.site for use in mapped if use.site and "axis_name" in use.site.options.keywords)
    axis = next((site.axis_name for site in named), None) or meshes.default_axis
    style = Style.of(file.source.text)
    sharding, helpers = meshes.sharding(file, axis, style.string(axis))
    stand_in = _PLACE.ljust(len(file.text(inner)), "x")
    copied = CallText(f"{jax}.tree.map", (copy, stand_in))
    (line, column), (last, column_after) = position(made.at.node), end(made.at.node)
    after = max(len(file.lines[last - 1].rstrip()) - column_after, 0)
    call = CallText(f"{jax}.device_put", (copied, sharding))
    opening, closing = render(call, style, file.margin(line), column, after).split(stand_in)
    return _text_around(made, opening, closing), imports, helpers


def _without_call(point: Point) -> list[Edit]:
    """A call that becomes its argument, as `shard(x)`; `x = shard(x)` is removed."""
    file, inner = point.at.file, point.inner
    statement = file.index.parents.get(point.at.node)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        pair = statement.targets[0], inner
        are_plain = all(isinstance(node, (ast.Name, ast.Tuple)) for node in pair)
        if are_plain and len({ast.unparse(node) for node in pair if node is not None}) == 1:
            return [delete(file, statement)]
    return _text_around(point)


def _read(use: Point, is_donated: bool) -> tuple[list[Edit], frozenset[str]]:
    """`unreplicate(x)` becomes `x`, or a copy of `x` if `x` may be donated later."""
    file, is_array = use.at.file, use.role is CellRole.INDEX
    jax, imports = jax_name(file)
    copy = f"{known_as(file, use.at.node, 'jax.numpy') or f'{jax}.numpy'}.copy"
    if not is_donated or _is_read_now(file, use.at.node):
        return _without_call(use), frozenset()
    opening = f"{copy}(" if is_array else f"{jax}.tree.map({copy}, "
    return _text_around(use, opening, ")"), imports


def _text_around(point: Point, opening: str = "", closing: str = "") -> list[Edit]:
    """The tree that a place is given, in its place, with other text around it."""
    file, node, inner = point.at.file, point.at.node, point.inner
    assert inner is not None
    if not opening and not closing and not isinstance(inner, _SIMPLE):
        opening, closing = "(", ")"
    return [*around(file, node, inner, opening, closing)]


def _is_read_now(file: File, node: ast.AST) -> bool:
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
