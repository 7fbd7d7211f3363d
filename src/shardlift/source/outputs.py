"""Outputs of pmapped functions: which expressions they are, and which of them are arrays.

A look at the `return` statements, for findings. Nothing here is a proof: what is rewritten decides
when it runs.
"""

import ast
from collections.abc import Iterable
from dataclasses import replace

from shardlift.source.file import File
from shardlift.source.libraries import COLLECTIVES, PMAPS, REPLICATE, TO_HOST
from shardlift.source.project import is_test
from shardlift.source.reaching import reaching_bindings
from shardlift.source.scopes import has_star
from shardlift.source.sites import mapped_function
from shardlift.source.values import Constant, Known, Mapped, Output, Result, Value
from shardlift.source.wrappers import is_plain, keeps_result

Path = tuple[int | str, ...]

_NUMBERS = frozenset({"builtins.float", "builtins.int", "builtins.complex"})
_LOGGING = ("debug", "info", "warning", "error")
# The pmaps that return unchanged outputs; objax reduces them.
_RETURN_ARRAYS = PMAPS - {"objax.Parallel"}
_CONTAINERS = (ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.DictComp)
_DEEPEST = 5
# Operators that tuples have too; no other operator takes a tuple or a dict.
_OF_CONTAINERS = (ast.Add, ast.Mult, ast.BitOr)
_OF_ARRAYS = "all any argmax argmin astype max mean min prod reshape std sum var"
_OF_NUMPY = """
abs array asarray clip concatenate cos cumsum dot einsum exp linalg.norm log log1p matmul maximum
minimum ones ones_like sin sqrt square stack tanh tensordot transpose vdot zeros zeros_like
"""
_METHODS = frozenset(_OF_ARRAYS.split())  # and functions of jax.numpy
_FUNCTIONS = frozenset(f"jax.numpy.{name}" for name in _OF_NUMPY.split())


def returned_at(mapped: Mapped, path: Path = ()) -> list[tuple[File, ast.expr]]:
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
    node = _unreduced(file, node) if node is not None else None
    if isinstance(node, (ast.Tuple, ast.List)) and isinstance(step, int):
        return node.elts[step] if step < len(node.elts) and not has_star(node.elts) else None
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == step:
                return value
    return None


def _unreduced(file: File, node: ast.expr) -> ast.expr:
    """The expression that a name stands for, and that collectives take leaf by leaf."""
    for _ in range(_DEEPEST):
        node = file.definition(node)
        if not isinstance(node, ast.Call) or file.called(node) not in COLLECTIVES or not node.args:
            break
        node = node.args[0]
    return node


def _values(file: File, node: ast.expr) -> Iterable[Value]:
    """The values of an expression; an integer may select an element of an output."""
    index = _integer(node)
    if not isinstance(node, ast.Subscript) or index is None:
        return file.values(node)
    wholes = [value for value in _values(file, node.value) if isinstance(value, Output)]
    parts = [replace(whole, path=(*whole.path, index)) for whole in wholes]
    return [part for part in parts if returned_at(part.mapped, part.path)] or file.values(node)


def _integer(node: ast.expr) -> int | None:
    index = getattr(getattr(node, "slice", None), "value", None)
    return index if type(index) is int else None


def output_of(file: File, node: ast.expr) -> Output | None:
    """The output of a pmapped function that an expression is, if it is nothing else."""
    values = tuple(_values(file, node))
    value = values[0] if len(values) == 1 else None
    return value if isinstance(value, Output) and _is_sure(value.mapped) else None


def _is_sure(mapped: Mapped) -> bool:
    """Whether calling a mapped function returns the outputs of pmap, along a device axis."""
    decorated = mapped.file.index.parents.get(mapped.node)
    decorators = getattr(decorated, "decorator_list", [])
    if mapped.node in decorators and not all(keeps_result(mapped.file, d) for d in decorators):
        return False
    plain = all(keyword.arg for keyword in getattr(mapped.node, "keywords", []))
    return mapped.transform.certain and plain and mapped.transform.origin in _RETURN_ARRAYS


def may_be_output(file: File, node: ast.expr) -> bool:
    """Whether an expression, or a part of it, may be the output of a pmapped function."""
    parts = _parts(file, node)
    return any(isinstance(value, Output) for part in parts for value in file.values(part))


def _parts(file: File, node: ast.expr) -> list[ast.expr]:
    """What is put into a tuple, list or dict that is written out; else the expression alone."""
    made = file.definition(node)
    made = made if isinstance(made, ast.Tuple) else node  # what has a name may have been changed
    inside = made.values if isinstance(made, ast.Dict) else getattr(made, "elts", [])
    return [part for one in inside for part in _parts(file, one)] or [node]


def may_have_rows(file: File, node: ast.expr) -> bool:
    """Whether an expression may be an output with one row per device, and not a tuple of them."""
    outputs = [value for value in _values(file, node) if isinstance(value, Output)]
    return any(_maps_out(output.mapped) and not is_container(output) for output in outputs)


def has_rows(file: File, node: ast.expr) -> bool:
    """Whether each leaf of a tree is an array with one row per device, whatever reaches it."""
    values = [value for part in _parts(file, node) for value in file.values(part)]
    return bool(values) and all(
        (_is_sure(value.mapped) and _maps_out(value.mapped))
        if isinstance(value, Output)
        else isinstance(value, Result) and value.path in REPLICATE
        for value in values
    )


def _maps_out(mapped: Mapped) -> bool:
    located = mapped.keywords.get("out_axes")
    axes = located.file.only(located.node) if located is not None else Constant(0)
    is_first = isinstance(axes, Constant) and axes.value == 0
    return is_first and mapped.transform.origin in _RETURN_ARRAYS


def is_container(output: Output) -> bool:
    """Whether the function returns a tuple, list or dict that is written out."""
    expressions = returned_at(output.mapped, output.path)
    written = [_unreduced(file, node) for file, node in expressions]
    return bool(written) and all(isinstance(node, _CONTAINERS) for node in written)


def is_array(output: Output) -> bool:
    """Whether an output is one array, so that an integer index selects a device."""
    expressions = returned_at(output.mapped, output.path)
    return bool(expressions) and all(_makes_array(file, node) for file, node in expressions)


def _makes_array(file: File, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is an array or a number, whatever its operands are."""
    node = _unreduced(file, node)
    if depth > _DEEPEST:
        return False
    if isinstance(node, ast.BinOp) and isinstance(node.op, _OF_CONTAINERS):
        return any(_makes_array(file, side, depth + 1) for side in (node.left, node.right))
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float)  # an int repeats a tuple
    if isinstance(node, ast.Call):
        function = file.only(node.func)
        if isinstance(function, Known) and is_plain(function):
            returned = [(function.file, expression) for expression in function.returns()]
            return bool(returned) and all(_makes_array(*r, depth + 1) for r in returned)
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS
        return is_method or file.called(node) in _FUNCTIONS
    negated = isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not)
    return negated or isinstance(node, (ast.BinOp, ast.Compare)) or _is_loss(file, node)


def _is_loss(file: File, node: ast.expr) -> bool:
    """Whether a name is the loss in `loss, grads = jax.value_and_grad(f)(params)`."""
    bound = reaching_bindings(file.index, node) if isinstance(node, ast.Name) else ()
    if len(bound) != 1:
        return False
    (target,), depth = bound, 0
    while isinstance(parent := file.index.parents.get(target), ast.Tuple):
        if parent.elts[0] is not target:
            return False
        target, depth = parent, depth + 1
    value = parent.value if isinstance(parent, ast.Assign) else None
    made = file.only(value.func) if isinstance(value, ast.Call) else None
    if not isinstance(made, Result) or made.path != "jax.value_and_grad":
        return False
    return depth == 1 + any(keyword.arg == "has_aux" for keyword in made.call.keywords)


def device_index(file: File, node: ast.Subscript) -> Output | None:
    """The output whose row on one device `x[0]` or `x[0:1]` is; None if it may be a tuple."""
    is_part = isinstance(node.slice, ast.Slice) and ast.unparse(node.slice) in ("0:1", ":1")
    is_one = is_part or _integer(node) is not None
    if not is_one or not isinstance(node.ctx, ast.Load) or is_quick_test(file):
        return None
    output = output_of(file, node.value)
    if output is None or not _maps_out(output.mapped):
        return None
    return output if is_array(output) or is_scalar(file, node, output) else None


def is_quick_test(file: File) -> bool:
    """Whether a file is a test of one process: there, how long a read takes does not matter."""
    return is_test(file.path) and not file.many_processes


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


def is_small(file: File, node: ast.expr) -> bool:
    """Whether a value that goes to the host is one number, or is printed: nobody prints much."""
    parent = file.index.parents.get(node)
    if isinstance(parent, ast.FormattedValue):
        return parent.conversion == -1
    if isinstance(parent, ast.Attribute):
        return parent.attr == "item"
    return isinstance(parent, ast.Call) and (
        is_logged(parent) or file.called(parent) in _NUMBERS | {"builtins.print"}
    )


def is_logged(call: ast.Call) -> bool:
    """`logging.info(...)` or `logger(...)`, by its name."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in _LOGGING
    return is_method or getattr(call.func, "id", "") == "logger"


def fetched_argument(file: File, node: ast.expr) -> ast.expr | None:
    """The argument of `jax.device_get` or `np.asarray`, which copy all of it to the host."""
    node = file.definition(node)
    if isinstance(node, ast.Call) and node.args and file.called(node) in TO_HOST:
        return node.args[0]
    return None
