"""Where a mapped function is called, as far as names lead from its site to the calls."""

import ast
import contextlib
import re
from collections.abc import Iterable, Iterator

from shardlift.rewrite.options import UnsupportedError
from shardlift.rewrite.scripts import attributes, global_mentions, is_program
from shardlift.source.file import File
from shardlift.source.mentions import OWN, Mention, Use
from shardlift.source.scopes import all_arguments, has_star, last_name
from shardlift.source.values import Known

_DEPTH = 6
_PARTIALS = frozenset({"functools.partial", "jax.tree_util.Partial"})
_PADS = "flax.jax_utils.pad_shard_unpad"
LOWERED = "spmd_map of in_axes has no .lower(): write jax.jit(jax.shard_map(...)) for it"
_HANDED_ON = "it is handed on to code that may call it in any way: look at its calls"


def find_calls(file: File, mention: Mention) -> list[tuple[File, ast.Call]]:
    """The calls of a site's mapped function, in all files; `UnsupportedError` for other uses."""
    if mention.use is Use.DECORATOR:
        function = file.index.parents[mention.node]
        assert isinstance(function, ast.FunctionDef)
        calls = list(_of_name(file, function, ast.Name(function.name), _DEPTH))
        if isinstance(file.index.parents[function], ast.ClassDef):
            calls = [(other, _with_object(other, call)) for other, call in calls]
    else:
        calls = list(_of_value(file, mention.node, _DEPTH))
    if not calls and not is_program(file):
        raise UnsupportedError("no call of it was found, so its number of rows is not known")
    return calls


def is_lowered(file: File, mention: Mention) -> bool:
    """Whether `.lower(…)` of a site's mapped function is seen."""
    with contextlib.suppress(UnsupportedError):
        return any(last_name(call.func) == "lower" for _, call in find_calls(file, mention))
    return False


def _with_object(file: File, call: ast.Call) -> ast.Call:
    """A call of a method with its object as the first argument."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    if of is None or isinstance(file.only(of), Known):  # a class
        return call
    return ast.Call(call.func, [of, *call.args], call.keywords)


def _of_value(file: File, node: ast.expr, depth: int) -> Iterator[tuple[File, ast.Call]]:
    """The calls of a value, from the expression that makes it."""
    parent = file.index.parents.get(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        yield file, parent
    elif isinstance(parent, ast.Assign) and len(parent.targets) == 1 and depth:
        yield from _of_name(file, parent, parent.targets[0], depth - 1)
    elif isinstance(parent, ast.Return) and depth:
        yield from _of_returned(file, parent, None, depth - 1)
    elif isinstance(parent, ast.Tuple) and depth:
        at, statement = parent.elts.index(node), file.index.parents.get(parent)
        if isinstance(statement, ast.Return):
            yield from _of_returned(file, statement, at, depth - 1)
        else:
            yield from _of_element(file, parent, at, depth - 1)
    elif isinstance(parent, ast.IfExp) and parent.test is not node and depth:
        yield from _of_value(file, parent, depth - 1)
    elif isinstance(parent, ast.Attribute) and parent.attr == "lower":
        yield from _of_value(file, parent, 0)  # it takes what a call takes
    elif isinstance(parent, ast.Call) and file.called(parent) == "jax.jit" and depth:
        yield from _of_value(file, parent, depth - 1)
    elif isinstance(parent, ast.Call) and file.called(parent) in _PARTIALS:
        yield file, ast.Call(parent.func, parent.args[1:], parent.keywords)
    elif isinstance(parent, ast.Call) and file.called(parent) == _PADS and depth:
        yield from _of_value(file, parent, depth - 1)
        yield file, ast.Call(parent.func, [parent], [])  # it makes one row per device
    elif isinstance(parent, (ast.Call, ast.keyword)) and depth:
        yield from _of_parameter(file, node, depth - 1)
    else:
        raise UnsupportedError(_HANDED_ON)


def _of_parameter(file: File, node: ast.expr, depth: int) -> Iterator[tuple[File, ast.Call]]:
    """The calls of an argument in the function of the project that it is given to."""
    parent = file.index.parents[node]
    call = file.index.parents[parent] if isinstance(parent, ast.keyword) else parent
    value = file.only(call.func) if isinstance(call, ast.Call) else None
    if not isinstance(value, Known) or not isinstance(value.node, ast.FunctionDef):
        raise UnsupportedError(_HANDED_ON)
    names = [argument.arg for argument in all_arguments(value.node.args)]
    if isinstance(parent, ast.keyword):
        name = parent.arg
    else:
        at = parent.args.index(node) if isinstance(parent, ast.Call) else 0
        name = names[at] if at < len(names) and names[0] != "self" else None
    if name not in names:
        raise UnsupportedError(_HANDED_ON)
    inside = {n for n in ast.walk(value.node) if isinstance(n, ast.Name) and n.id == name}
    yield from _uses(value.file, inside, depth)


def _of_element(file: File, pair: ast.expr, at: int, depth: int) -> Iterator[tuple[File, ast.Call]]:
    """The calls of one element of a tuple that is unpacked at once."""
    parent = file.index.parents.get(pair)
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    names = targets[0].elts if len(targets) == 1 and isinstance(targets[0], ast.Tuple) else []
    if not names or has_star(names):
        raise UnsupportedError(_HANDED_ON)
    assert isinstance(parent, ast.Assign)
    yield from _of_name(file, parent, names[at], depth)


def _of_returned(
    file: File, statement: ast.Return, at: int | None, depth: int
) -> Iterator[tuple[File, ast.Call]]:
    """The calls of the functions that calls of a function return."""
    function = file.index.function_around(statement)
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        raise UnsupportedError(_HANDED_ON)
    for other, call in _of_name(file, function, ast.Name(function.name), depth):
        if at is None:
            yield from _of_value(other, call, depth)
        else:
            yield from _of_element(other, call, at, depth)


def _of_name(
    file: File, statement: ast.stmt, target: ast.expr, depth: int
) -> Iterator[tuple[File, ast.Call]]:
    """The calls of a function that a statement binds to a name or an attribute."""
    if isinstance(target, ast.Name) and isinstance(file.index.parents[statement], ast.ClassDef):
        target = ast.Attribute(target, target.id)
    if isinstance(target, ast.Attribute):
        name = target.attr
        # After a dot, or after a line that ends in one.
        attribute = re.compile(rf"(\.|\\\n|#[^\n]*\n)\s*{name}\b")
        for other in file.project.files_where(lambda t: name in t and attribute.search(t)):
            yield from _uses(other, attributes(other).get(name, ()), depth)
    elif isinstance(target, ast.Name) and statement in file.index.root.body:
        for other, node in global_mentions(file, target.id):
            yield from _uses(other, (node,), depth)
    elif isinstance(target, ast.Name):
        names = file.index.names.get(target.id, ())
        bound = next((n for n in names if n is target), None)
        around = (n for n in file.index.ancestors(statement) if n in file.index.opens)
        scope = file.index.binding_scope(bound)[0] if bound else file.index.opens[next(around)]
        same = (node for node in names if file.index.binding_scope(node)[0] is scope)
        yield from _uses(file, same, depth)
    else:
        raise UnsupportedError(_HANDED_ON)


def _uses(
    file: File, nodes: Iterable[ast.Name | ast.Attribute], depth: int
) -> Iterator[tuple[File, ast.Call]]:
    for node in nodes:
        parent = file.index.parents[node]
        is_mapped = isinstance(parent, ast.Call) and file.called(parent) in OWN
        if isinstance(node.ctx, ast.Load) and not is_mapped:  # `step = jax.pmap(step)`
            yield from _of_value(file, node, depth)
