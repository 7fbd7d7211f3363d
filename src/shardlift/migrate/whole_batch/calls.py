"""The calls in a step: of collectives, of libraries, of the program."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from shardlift.migrate.device_axis.cells import Key, Place
from shardlift.migrate.whole_batch import functions
from shardlift.migrate.whole_batch.body import Scope, follows
from shardlift.migrate.whole_batch.kinds import Kind
from shardlift.migrate.whole_batch.opaque import is_opaque, what_differs
from shardlift.migrate.whole_batch.values import (
    SAME,
    Code,
    Native,
    Parts,
    RefusalError,
    Shape,
    Tree,
    Value,
    is_same,
    kinds,
)
from shardlift.source.idioms import axis_of
from shardlift.source.libraries import TREE_MAPS
from shardlift.source.values import Known

_RECORDS = frozenset({"typing.NamedTuple", "dataclasses.dataclass", "flax.struct.dataclass",
                      "flax.struct.PyTreeNode", "chex.dataclass"})  # fmt: skip


@follows(ast.Call)
def _call(scope: Scope, node: ast.Call) -> Value:
    """The value of a call."""
    name = scope.file.called(node) if scope.is_library(node.func) else None
    if name in functions.COLLECTIVES:
        return _collective(scope, node, name)
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        raise scope.refuse(node, "arguments are unpacked into a call")
    if any(keyword.arg is None for keyword in node.keywords):
        raise scope.refuse(node, "arguments are unpacked into a call")
    args = [scope.value(argument) for argument in node.args]
    named = {keyword.arg or "": scope.value(keyword.value) for keyword in node.keywords}
    if name is not None:
        return _library(scope, node, name, args, named)
    return _own(scope, node, args, named)


# ---- collectives


def _collective(scope: Scope, node: ast.Call, name: str) -> Value:
    body = scope.body
    if name not in (functions.PMEAN, functions.PSUM):
        raise scope.refuse(node, f"`{scope.file.brief(node)}` has no counterpart without devices")
    names = {keyword.arg for keyword in node.keywords}
    if axis_of(scope.file, node) != body.axis_name or not names <= {"axis_name"} or not node.args:
        raise scope.refuse(node, f"the axis of `{scope.file.brief(node)}` is not known")
    if body.differentiating:
        raise scope.refuse(
            node, f"`{scope.file.brief(node)}` is in a function that is differentiated"
        )
    value = scope.value(node.args[0])
    wanted = {Kind.MEAN, Kind.SAME} if name == functions.PMEAN else {Kind.SUM, Kind.COUNT}
    wrong = [kind for kind in kinds(value) if kind not in wanted]
    if wrong or isinstance(value, (Code, Native, Shape)):
        what = wrong[0] if wrong else "a function"
        raise scope.refuse(node, f"`{scope.file.brief(node)}` reduces {what}")
    body.removed[node] = scope.file
    return _reduced(value)


def _reduced(value: Value) -> Value:
    if isinstance(value, Parts):
        rest = None if value.rest is None else _reduced(value.rest)
        return Parts({key: _reduced(one) for key, one in value.items.items()}, rest)
    return SAME


# ---- libraries


def _library(
    scope: Scope, node: ast.Call, name: str, args: list[Value], named: dict[str, Value]
) -> Value:
    if name in functions.SAME_FUNCTION and len(args) == 1:
        return args[0]
    if name in functions.GRADIENTS and args and isinstance(args[0], (Code, Native)):
        return _gradient(scope, node, name, args[0])
    if name == "functools.partial" and args and isinstance(args[0], Code):
        first = args[0]
        return replace(first, args=(*first.args, *args[1:]), named={**first.named, **named})
    if name in TREE_MAPS and len(args) > 1 and isinstance(args[0], (Code, Native)):
        return _tree_map(scope, node, args[0], args[1:])
    if name == "jax.vmap" and args and isinstance(args[0], Code):
        return _vmapped(scope, node, args[0])
    if is_same([*args, *named.values()]):
        return SAME
    found = _of_rows(scope, node, name, args, named)
    if found is not None:
        return found
    if all(is_opaque(value) for value in (*args, *named.values())):
        return SAME
    return _refuse_unknown(scope, node, [*args, *named.values()])


def _of_rows(
    scope: Scope, node: ast.Call, name: str, args: list[Value], named: dict[str, Value]
) -> Value | None:
    """A function of which it is known what it does to rows, means and sums."""
    if name in functions.OPERATORS and len(args) == 2 and not named:
        return scope.operation(node, functions.OPERATORS[name], *args)
    if name in functions.PRODUCTS and len(args) == 2 and not named:
        if name.endswith("dot") and Kind.ROWS in kinds(args[1]):
            return None  # where the rows are in the result depends on shapes
        return scope.operation(node, ast.MatMult(), *args)
    if name in functions.UNCHANGED and len(args) == 1:
        return args[0]
    if name in functions.MEANS | functions.SUMS and len(args) == 1:
        return _mean_or_sum(scope, node, args[0], name in functions.MEANS, named)
    if name in functions.ROWWISE:
        return scope.rowwise(node, [*args, *named.values()])
    if name in functions.LAST_AXIS | functions.ALONG | functions.JOINING:
        axis = _axis(node, 2 if name == "jax.nn.one_hot" else 1)
        default = name in functions.LAST_AXIS and axis is None
        if not default and not _keeps_rows(axis):
            raise scope.refuse(node, f"`{scope.file.brief(node)}` combines the rows of one device")
        return scope.rowwise(node, [*args, *named.values()])
    if name == "jax.numpy.reshape" and len(args) == 2 and not named:
        return _reshaped(scope, node, args[0], [node.args[1]])
    if name in ("jax.numpy.expand_dims", "jax.numpy.squeeze") and _keeps_rows(_axis(node, 1)):
        return scope.rowwise(node, args)
    return None


def _axis(node: ast.Call, position: int) -> ast.expr | None:
    """The expression of an `axis` argument."""
    by_name = {keyword.arg: keyword.value for keyword in node.keywords}
    given = node.args[position] if len(node.args) > position else None
    return by_name.get("axis", given)


def _axes(axis: ast.expr | None) -> list[int] | None:
    """The axes that an expression names; None if they are not literal."""
    elements = axis.elts if isinstance(axis, (ast.Tuple, ast.List)) else [axis]
    found: list[int] = []
    for element in elements:
        sign = 1
        if isinstance(element, ast.UnaryOp) and isinstance(element.op, ast.USub):
            sign, element = -1, element.operand
        if not isinstance(element, ast.Constant) or type(element.value) is not int:
            return None
        found.append(sign * element.value)
    return found


def _keeps_rows(axis: ast.expr | None) -> bool:
    """Whether an axis is surely not the one of the rows, in an array of at least two axes."""
    axes = _axes(axis)
    return axes is not None and all(one == -1 or one > 0 for one in axes)


def _mean_or_sum(
    scope: Scope, node: ast.Call, value: Value, mean: bool, named: Mapping[str, Value]
) -> Value:
    """`jnp.mean(x)` or `x.mean()`: over the rows, over other axes, or over all."""
    position = 0 if isinstance(node.func, ast.Attribute) and not scope.is_library(node.func) else 1
    if not named.keys() <= {"axis", "keepdims", "dtype"} or len(node.args) > position + 1:
        raise scope.refuse(node, f"the options of `{scope.file.brief(node)}` are not followed")
    axis = _axis(node, position)
    if is_same([value]):
        return SAME
    if not isinstance(value, Tree) or value.kind is Kind.COUNT:
        raise scope.refuse(node, f"`{scope.file.brief(node)}` {scope.because(value)}")
    if value.kind is not Kind.ROWS:
        return value  # linear
    axes = _axes(axis)
    if axis is None or (axes is not None and 0 in axes and all(one >= -1 for one in axes)):
        return Tree(Kind.MEAN if mean else Kind.SUM)
    if not _keeps_rows(axis):
        raise scope.refuse(node, f"the axis of `{scope.file.brief(node)}` may be that of the rows")
    return value


def _reshaped(scope: Scope, node: ast.Call, value: Value, shape: Sequence[ast.expr]) -> Value:
    """A reshape that keeps the rows first: to `(x.shape[0], ...)` or `(-1, ...)`."""
    if len(shape) == 1 and isinstance(shape[0], (ast.Tuple, ast.List)):
        shape = shape[0].elts
    first = shape[0] if shape else None
    count = isinstance(first, ast.Subscript) and scope.value(first) == Tree(Kind.COUNT)
    others = all(is_same([scope.value(one)]) for one in shape[1:] if not _is_minus_one(one))
    minus = sum(_is_minus_one(one) for one in shape)
    fine = value == Tree(Kind.ROWS) and others and first is not None
    if fine and minus <= 1 and (count or (_is_minus_one(first) and len(shape) > 1)):
        return value
    raise scope.refuse(node, f"`{scope.file.brief(node)}` may move rows")


def _is_minus_one(node: ast.expr | None) -> bool:
    return node is not None and _axes(node) == [-1] and not isinstance(node, (ast.Tuple, ast.List))


def _gradient(scope: Scope, node: ast.Call, name: str, function: Code | Native) -> Value:
    """`jax.grad(f)`: the gradient of a mean is the mean of the gradients."""
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    if len(node.args) > 1:
        options["argnums"] = node.args[1]
    has_aux = options.pop("has_aux", None)
    argnums = options.pop("argnums", ast.Constant(0))
    options.pop("allow_int", None)
    known = has_aux is None or isinstance(has_aux, ast.Constant)
    numbers = _axes(argnums)
    if options or not known or numbers is None or min(numbers) < 0:
        raise scope.refuse(node, f"the options of `{scope.file.brief(node)}` are not followed")
    aux = isinstance(has_aux, ast.Constant) and bool(has_aux.value)
    many = isinstance(argnums, (ast.Tuple, ast.List))

    def call(at: Place, args: list[Value], named: dict[str, Value]) -> Value:
        if max(numbers) >= len(args) or not is_same([args[number] for number in numbers]):
            raise RefusalError(
                at, "a gradient is taken with respect to something else than what all devices share"
            )
        scope.body.differentiating += 1
        try:
            value = apply(scope, at, function, args, named)
        finally:
            scope.body.differentiating -= 1
        loss = scope.part_of(at.node, value, 0) if aux else value
        if not isinstance(loss, Tree) or loss.kind not in (Kind.SAME, Kind.MEAN, Kind.SUM):
            raise RefusalError(at, f"the gradient is not that of a mean, but {scope.because(loss)}")
        gradient: Value = Parts(dict.fromkeys(range(len(numbers)), loss)) if many else loss
        extra = scope.part_of(at.node, value, 1) if aux else None
        if functions.GRADIENTS[name]:
            return Parts({0: value, 1: gradient})
        return gradient if extra is None else Parts({0: gradient, 1: extra})

    return Native(call)


def _tree_map(scope: Scope, node: ast.Call, function: Code | Native, trees: list[Value]) -> Value:
    at = Place(scope.file, node)
    shapes = [tree for tree in trees if isinstance(tree, Parts)]
    if not shapes:
        return apply(scope, at, function, trees, {})
    keys = list(dict.fromkeys(key for tree in shapes for key in tree.items))
    inner = {
        k: _tree_map(scope, node, function, [scope.part_of(node, t, k) for t in trees])
        for k in keys
    }
    if all(tree.rest is None for tree in shapes):
        return Parts(inner)
    rests = [tree.rest if isinstance(tree, Parts) else tree for tree in trees]
    known = [rest for rest in rests if rest is not None]
    if len(known) < len(rests):
        raise scope.refuse(node, f"`{scope.file.brief(node)}` is not followed")
    return Parts(inner, _tree_map(scope, node, function, known))


def _vmapped(scope: Scope, node: ast.Call, function: Code) -> Value:
    """`jax.vmap(f)`: of each row, whatever `f` does, unless it asks for its device."""
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    if len(node.args) > 1:
        options["in_axes"] = node.args[1]
    why = what_differs(function)
    axes = options.pop("in_axes", ast.Constant(0))
    if options or len(node.args) > 2 or why is not None:
        raise scope.refuse(node, f"`{scope.file.brief(node)}` is not followed")
    listed = axes.elts if isinstance(axes, (ast.Tuple, ast.List)) else None

    def call(at: Place, args: list[Value], named: dict[str, Value]) -> Value:
        each = listed if listed is not None else [axes] * len(args)
        if named or len(each) != len(args):
            raise RefusalError(at, "the arguments of vmap are not followed")
        for axis, value in zip(each, args, strict=True):
            number = axis.value if isinstance(axis, ast.Constant) else ...
            over_rows = number == 0 and number is not False and value == Tree(Kind.ROWS)
            if not over_rows and not (number is None and is_same([value])):
                raise RefusalError(at, "vmap is over something else than the rows of the batch")
        return Tree(Kind.ROWS)

    return Native(call)


# ---- the program


def _own(scope: Scope, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    known = scope.file.only(node.func)
    if isinstance(known, Known) and isinstance(known.node, ast.ClassDef):
        return _record(scope, node, known, args, named)
    if isinstance(node.func, ast.Attribute):
        base = None if isinstance(known, Known) else scope.value(node.func.value)
        found = None if base is None else _method(scope, node, node.func.attr, base, args, named)
        if found is not None:
            return found
    if isinstance(known, Known) and _is_method(known):
        function: Value = Code(known.node, known.file, None, (SAME,))  # type: ignore[arg-type]
    else:
        function = scope.value(node.func)
    return apply(scope, Place(scope.file, node), function, args, named)


def _is_method(known: Known) -> bool:
    return isinstance(known.file.index.parents.get(known.node), ast.ClassDef)


def apply(
    scope: Scope, at: Place, function: Value, args: Sequence[Value], named: Mapping[str, Value]
) -> Value:
    """Call a value."""
    given = [*args, *named.values()]
    if isinstance(function, Native):
        return function.call(at, list(args), dict(named))
    if isinstance(function, Code):
        if is_same(given) and what_differs(function) is None:
            return SAME  # whatever it does
        return scope.body.run(function, at, args, named)
    if is_same([function]) and all(is_opaque(value) for value in given):
        return SAME
    return _refuse_unknown(scope, at.node, given)


def _refuse_unknown(scope: Scope, node: ast.AST, values: Sequence[Value]) -> Value:
    found = [kind for kind in Kind if any(kind in kinds(value) for value in values)]
    what = next((kind for kind in found if kind is not Kind.SAME), "a function")
    called = scope.file.brief(node.func if isinstance(node, ast.Call) else node)
    raise scope.refuse(node, f"`{called}` is given {what} and is not followed")


def _record(
    scope: Scope, node: ast.Call, known: Known, args: list[Value], named: dict[str, Value]
) -> Value:
    """An object of a class of the program: of a record, its fields are known."""
    if is_same([*args, *named.values()]):
        return SAME
    assert isinstance(known.node, ast.ClassDef)
    around = (*known.node.bases, *known.node.decorator_list)
    plain = [one.func if isinstance(one, ast.Call) else one for one in around]
    if not any(known.file.name(one) in _RECORDS for one in plain):
        raise scope.refuse(node, f"an object of {known.node.name} is made of values of one device")
    fields = [s.target.id for s in known.node.body
              if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]  # fmt: skip
    items: dict[Key, Value] = {**dict(zip(fields, args, strict=False)), **named}  # type: ignore[dict-item]
    return Parts(items)


_ARRAY_METHODS = {"mean": True, "sum": False}
_ALONG = ("max", "min", "argmax", "argmin", "std", "var", "prod", "any", "all", "cumsum")


def _method(
    scope: Scope,
    node: ast.Call,
    name: str,
    base: Value,
    args: list[Value],
    named: dict[str, Value],
) -> Value | None:
    """A method of an array or a tree; None if its name says nothing."""
    if name in ("replace", "_replace") and not args:
        return _replaced(base, named)
    if not isinstance(base, Tree) or is_same([base]):
        return None
    if name in _ARRAY_METHODS:
        return _mean_or_sum(scope, node, base, _ARRAY_METHODS[name], named)
    if name == "astype" and len(args) == 1 and not named and _stays_linear(scope, node, base):
        return base
    if name == "reshape" and not named:
        return _reshaped(scope, node, base, node.args)
    if name in _ALONG and _keeps_rows(_axis(node, 0)):
        return scope.rowwise(node, [base])
    raise scope.refuse(node, f"`{scope.file.brief(node)}` {scope.because(base)}")


def _stays_linear(scope: Scope, node: ast.Call, base: Tree) -> bool:
    """Whether a conversion is one of rows, or to a floating-point type."""
    return base.kind is Kind.ROWS or scope.file.name(node.args[0]) in functions.FLOAT_TYPES


def _replaced(base: Value, named: Mapping[str, Value]) -> Value | None:
    """`state.replace(field=value)`."""
    if is_same([base, *named.values()]):
        return SAME
    if isinstance(base, Parts):
        return Parts(dict(base.items) | dict(named.items()), base.rest)
    return Parts(dict(named.items()), base) if isinstance(base, Tree) else None
