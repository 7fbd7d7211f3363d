"""What a pmapped function returns, as far as its source says."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.idioms import COLLECTIVES
from shardlift.source.resolve import returns
from shardlift.source.sites import mapped_function
from shardlift.source.values import Constant, Known, Mapped, Output, Result

_TO_HOST = frozenset({"numpy.asarray", "numpy.array", "jax.device_get"})
_NUMBERS = frozenset({"builtins.float", "builtins.int", *_TO_HOST})


def returned(mapped: Mapped, path: tuple[int | str, ...] = ()) -> Iterator[tuple[File, ast.expr]]:
    """The expressions that the mapped function returns, or those at a path inside the tuple."""
    function = mapped_function(mapped)
    if function is None:
        return
    for node in returns(function):
        found: ast.expr | None = node
        for step in path:
            found = _element(function.file, found, step)
        if found is not None:
            yield function.file, function.file.definition(found)


def _element(file: File, node: ast.expr | None, step: int | str) -> ast.expr | None:
    node = file.definition(node) if node is not None else None
    if isinstance(node, (ast.Tuple, ast.List)) and isinstance(step, int):
        return node.elts[step] if step < len(node.elts) else None
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == step:
                return value
    return None


def is_array(output: Output) -> bool:
    """Whether an output is certain to be an array, so that an integer picks a device."""
    expressions = list(returned(output.mapped, output.path))
    return bool(expressions) and all(_array(file, node) for file, node in expressions)


def _array(file: File, node: ast.expr) -> bool:
    if isinstance(node, (ast.BinOp, ast.UnaryOp)):
        return True
    value = file.only(node)
    return isinstance(value, Result) and (
        value.path in COLLECTIVES or value.path.startswith(("jax.numpy.", "jax.random.normal"))
    )


def device_index(file: File, node: ast.Subscript) -> Output | None:
    """The output of which an integer index picks a device; None if it may be a tuple's element."""
    if not isinstance(node.slice, ast.Constant) or type(node.slice.value) is not int:
        return None
    if not isinstance(node.ctx, ast.Load):
        return None
    value = file.only(node.value)
    if not isinstance(value, Output):
        return None
    if not _maps_out(value.mapped):
        return None
    return value if is_array(value) or used_as_number(file, node) else None


def _maps_out(mapped: Mapped) -> bool:
    located = mapped.keywords.get("out_axes")
    if located is None:
        return True
    axes = located.file.only(located.node)
    return isinstance(axes, Constant) and axes.value == 0


def used_as_number(file: File, node: ast.Subscript) -> bool:
    """`float(x[0])`, `x[0].item()`: nobody does that to a tuple."""
    parent = file.index.parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("item", "block_until_ready", "dtype", "shape")
    return isinstance(parent, ast.Call) and node in parent.args and file.called(parent) in _NUMBERS


def fetched(file: File, node: ast.expr) -> ast.expr | None:
    """What a call brings to the host whole: the argument of device_get or of np.asarray."""
    node = file.definition(node)
    if isinstance(node, ast.Call) and node.args and file.called(node) in _TO_HOST:
        return node.args[0]
    return None


def may_be_output(file: File, node: ast.expr) -> bool:
    """Whether an expression is, on some path, what a pmapped function returned."""
    return any(isinstance(value, Output) for value in file.values(node))


def returns_tuple(function: Known) -> bool:
    """Whether every return is written as a tuple."""
    found = list(returns(function))
    return bool(found) and all(isinstance(node, ast.Tuple) for node in found)
