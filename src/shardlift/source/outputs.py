"""Outputs of pmapped functions: which expressions they are, and what they consist of."""

from __future__ import annotations

import ast
from dataclasses import replace

from shardlift.source.certainty import is_certain
from shardlift.source.file import File
from shardlift.source.inference import output_structure
from shardlift.source.libraries import PMAPS, TO_HOST
from shardlift.source.sites import mapped_function
from shardlift.source.structure import Leaf, Parts, Structure, part
from shardlift.source.values import Constant, Mapped, Output
from shardlift.source.wrappers import is_plain, keeps_result

_NUMBERS = frozenset({"builtins.float", "builtins.int", "builtins.complex"})
# The pmaps that return the outputs as they are; objax reduces them.
_RETURN_ARRAYS = PMAPS - {"objax.Parallel"}


def returned_at(mapped: Mapped, path: tuple[int | str, ...] = ()) -> list[tuple[File, ast.expr]]:
    """The expressions that a mapped function returns at a path; empty if one is not known."""
    function = mapped_function(mapped)
    if function is None or not is_plain(function):
        return []
    expressions: list[tuple[File, ast.expr]] = []
    for node in function.returns():
        element: ast.expr | None = node
        for step in path:
            element = _element(function.file, element, step)
        if element is None:
            return []
        expressions.append((function.file, function.file.definition(element)))
    return expressions


def _element(file: File, node: ast.expr | None, step: int | str) -> ast.expr | None:
    node = file.definition(node) if node is not None else None
    if isinstance(node, (ast.Tuple, ast.List)) and isinstance(step, int):
        starred = any(isinstance(element, ast.Starred) for element in node.elts)
        return node.elts[step] if step < len(node.elts) and not starred else None
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == step:
                return value
    return None


def output_of(file: File, node: ast.expr) -> Output | None:
    """The output of a pmapped function that an expression is, if it cannot be anything else."""
    if isinstance(node, ast.Subscript) and (index := _integer(node)) is not None:
        return _element_of(file, node, index)
    value = file.only(node)
    if not isinstance(value, Output) or not _is_sure(value.mapped) or not is_certain(file, node):
        return None
    return value


def _element_of(file: File, node: ast.Subscript, index: int) -> Output | None:
    whole = output_of(file, node.value)
    parts = structure(whole, file) if whole is not None else None
    if whole is None or not isinstance(parts, Parts) or index not in parts.of:
        return None
    kept = parts.kind is tuple or is_certain(file, node)
    return replace(whole, path=(*whole.path, index)) if kept else None


def _integer(node: ast.Subscript) -> int | None:
    index = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return index if type(index) is int else None


def _is_sure(mapped: Mapped) -> bool:
    """Whether calling a mapped function returns the outputs of pmap, along a device axis."""
    decorated = mapped.file.index.parents.get(mapped.node)
    decorators = getattr(decorated, "decorator_list", [])
    if mapped.node in decorators and not all(keeps_result(mapped.file, d) for d in decorators):
        return False
    plain = all(keyword.arg for keyword in getattr(mapped.node, "keywords", []))
    return mapped.transform.certain and plain and mapped.transform.origin in _RETURN_ARRAYS


def structure(output: Output, file: File) -> Structure:
    """The structure of an output, as far as the source proves it."""
    here = file if output.call in file.index.parents else None
    result = output_structure(output.mapped, output.call, here)
    for step in output.path:
        result = part(result, step)
    return result


def is_array(output: Output, file: File) -> bool:
    """Whether an output is proven to be one array, so that an integer index selects a device."""
    return isinstance(structure(output, file), Leaf)


def device_index(file: File, node: ast.Subscript) -> Output | None:
    """The output in which an integer index selects a device; None if it may be a tuple."""
    if _integer(node) is None or not isinstance(node.ctx, ast.Load):
        return None
    output = output_of(file, node.value)
    if output is None or not _maps_out(output.mapped):
        return None
    return output if is_array(output, file) or is_scalar(file, node, output) else None


def _maps_out(mapped: Mapped) -> bool:
    located = mapped.keywords.get("out_axes")
    if located is None:
        return True
    axes = located.file.only(located.node)
    return isinstance(axes, Constant) and axes.value == 0


def is_scalar(file: File, node: ast.Subscript, output: Output | None = None) -> bool:
    """Whether `x[0]` must be a scalar: `float(x[0])`, `f"{x[0]:.3f}"`.

    JAX and numpy raise an error for an array with an axis. Every array in a tuple that pmap
    returned has the device axis, so `x` is not a tuple. `x[0].item()` proves nothing: on one device
    it also works for an array of one element.
    """
    if output is not None and not output.mapped.transform.origin.startswith(("jax.", "flax.")):
        return False  # equinox returns floats without a device axis
    parent = file.index.parents.get(node)
    if isinstance(parent, ast.FormattedValue):
        texts = getattr(parent.format_spec, "values", [])
        spec = texts[0].value if len(texts) == 1 and isinstance(texts[0], ast.Constant) else None
        return parent.conversion == -1 and bool(spec)
    return isinstance(parent, ast.Call) and node in parent.args and file.called(parent) in _NUMBERS


def fetched_argument(file: File, node: ast.expr) -> ast.expr | None:
    """The argument of `jax.device_get` or `np.asarray`, which copy all of it to the host."""
    node = file.definition(node)
    if isinstance(node, ast.Call) and node.args and file.called(node) in TO_HOST:
        return node.args[0]
    return None


def may_be_output(file: File, node: ast.expr) -> bool:
    """Whether an expression may be the output of a pmapped function."""
    return any(isinstance(value, Output) for value in file.values(node))
