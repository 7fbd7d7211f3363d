"""What a pmapped function returns, as far as its source says."""

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
# Those whose outputs are those of pmap; objax reduces them as it is told.
_RETURN_ARRAYS = PMAPS - {"objax.Parallel"}


def returned(mapped: Mapped, path: tuple[int | str, ...] = ()) -> list[tuple[File, ast.expr]]:
    """What the mapped function returns at a path, on every way through it; nothing if unknown."""
    function = mapped_function(mapped)
    if function is None or not is_plain(function):
        return []
    found: list[tuple[File, ast.expr]] = []
    for node in function.returns():
        element: ast.expr | None = node
        for step in path:
            element = _element(function.file, element, step)
        if element is None:
            return []
        found.append((function.file, function.file.definition(element)))
    return found


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
    """The output of a pmapped function that an expression is, if it can be nothing else."""
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
    """Whether a call of a mapped function returns what pmap does, along an axis of devices."""
    decorated = mapped.file.index.parents.get(mapped.node)
    decorators = getattr(decorated, "decorator_list", [])
    if mapped.node in decorators and not all(keeps_result(mapped.file, d) for d in decorators):
        return False
    plain = all(keyword.arg for keyword in getattr(mapped.node, "keywords", []))
    return mapped.transform.certain and plain and mapped.transform.origin in _RETURN_ARRAYS


def structure(output: Output, file: File) -> Structure:
    """What an output is made of, as far as the text proves it."""
    here = file if output.call in file.index.parents else None
    found = output_structure(output.mapped, output.call, here)
    for step in output.path:
        found = part(found, step)
    return found


def is_array(output: Output, file: File) -> bool:
    """Whether an output is proven to be one array, so that an integer picks a device."""
    return isinstance(structure(output, file), Leaf)


def device_index(file: File, node: ast.Subscript) -> Output | None:
    """The output of which an integer index picks a device; None if it may be a tuple's element."""
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
    """`float(x[0])`, `f"{x[0]:.3f}"`: JAX and numpy refuse that to an array with an axis.

    Every array of a tuple that pmap returned has the axis of the devices, so `x` is no tuple. An
    array of one element has an `item()` too: on one device that would prove nothing.
    """
    if output is not None and not output.mapped.transform.origin.startswith(("jax.", "flax.")):
        return False  # equinox returns a float as it is
    parent = file.index.parents.get(node)
    if isinstance(parent, ast.FormattedValue):
        texts = getattr(parent.format_spec, "values", [])
        spec = texts[0].value if len(texts) == 1 and isinstance(texts[0], ast.Constant) else None
        return parent.conversion == -1 and bool(spec)
    return isinstance(parent, ast.Call) and node in parent.args and file.called(parent) in _NUMBERS


def fetched(file: File, node: ast.expr) -> ast.expr | None:
    """What a call brings to the host whole: the argument of device_get or of np.asarray."""
    node = file.definition(node)
    if isinstance(node, ast.Call) and node.args and file.called(node) in TO_HOST:
        return node.args[0]
    return None


def may_be_output(file: File, node: ast.expr) -> bool:
    """Whether an expression is, on some path, what a pmapped function returned."""
    return any(isinstance(value, Output) for value in file.values(node))
