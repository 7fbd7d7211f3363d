"""Which arrays may have another number of rows than one per device, as far as the text says it.

pmap wants the same number of rows of all its arguments, so one of them is enough. Names are taken
for what they are called, wherever they stand: `n = jax.local_device_count()` in one function
makes `x.reshape(n, -1)` rows in another. Where that is wrong, the written code raises an error.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from shardlift.rewrite.scripts import means_the_same
from shardlift.source.file import File, remembered
from shardlift.source.mentions import OWN
from shardlift.source.scopes import all_arguments, last_name
from shardlift.source.values import Known
from shardlift.source.wrappers import is_plain

_COUNTED = frozenset(
    {"jax.local_device_count", "jax.device_count", "jax.local_devices", "jax.devices"}
)
# Each of them makes one row per device unless it is given devices.
_MAKERS = frozenset({
    "replicate", "shard", "shard_prng_key", "prefetch_to_device", "replicate_to_devices",
    "pad_shard_unpad",
})  # fmt: skip
# Each of them is given a shape.
_SHAPED = frozenset({"ones", "zeros", "full", "reshape", "normal", "uniform", "broadcast_to"})
# A number of this name is one that the program was given, unless JAX is seen to count it.
_GIVEN = re.compile(r"(?i)(device|gpu|tpu|core|shard|worker|chain|replica)s?$")
# A program that asks for so many devices of a CPU has them.
_FORCED = re.compile(
    r"""xla_force_host_platform_device_count=(\d+)|(?i:jax_num_cpu_devices)["'\]=, ]+(\d+)"""
)
_Binding = tuple[list[str], ast.AST]


def may_have_other_rows(file: File, arguments: Iterable[ast.expr]) -> bool:
    """Whether the text shows another number of rows than one for each device."""
    if _slices_of_devices(file):
        return True
    arguments = list(arguments)
    rows = _names_made(file, _is_row)
    if any(_is_row(file, argument, rows) for argument in arguments):
        return False
    others = _names_made(file, _is_other)
    expressions = [*arguments, *map(file.definition, arguments)]
    if any(_is_other(file, node, others) or _is_counted(file, node) for node in expressions):
        return True
    functions = (file.only(node.func) for node in expressions if isinstance(node, ast.Call))
    known = [one for one in functions if isinstance(one, Known)]
    return any(_is_counted(one.file, made) for one in known for made in one.returns())


def number_of_rows(
    file: File, place: ast.AST, calls: Iterable[tuple[File, list[ast.expr]]]
) -> str | None:
    """How many rows the arguments of some calls have, as text that means the same at a place.

    None if there is a row for each device, or the calls do not say it, or say different things.
    """
    numbers = {_number_said(file, place, other, arguments) for other, arguments in calls}
    return numbers.pop() if len(numbers) == 1 else None


def _number_said(file: File, place: ast.AST, other: File, arguments: list[ast.expr]) -> str | None:
    rows, made = _names_made(other, _is_row), _parts_of_devices(other)
    if not made and not any(_is_row(other, argument, rows) for argument in arguments):
        made = [number for argument in arguments if (number := _rows_of(other, argument))]
    texts = {text for number in made if (text := _text_of(file, place, other, number))}
    return texts.pop() if len(texts) == 1 else None


def _text_of(file: File, place: ast.AST, other: File, number: ast.expr) -> str | None:
    if isinstance(number, ast.Constant) and _is_number(number):
        return str(number.value).removesuffix(".0")  # jnp.arange(8.0)
    is_there = other is file and means_the_same(file, number, place)
    return ast.unparse(number) if is_there else None


def _rows_of(file: File, expression: ast.expr, depth: int = 3) -> ast.expr | None:
    """The number of rows of an array, where it is made or what a mapped function returns."""
    made = file.definition(expression)
    if not isinstance(made, ast.Call):
        return None
    if isinstance(made.func, ast.Attribute) and made.func.attr == "astype":
        return _rows_of(file, made.func.value)
    if file.called(file.definition(made.func)) in OWN:
        return next(filter(None, (_rows_of(file, argument) for argument in made.args)), None)
    function = file.only(made.func)
    if isinstance(function, Known) and isinstance(function.node, ast.FunctionDef):
        returned = function.returns() if is_plain(function) and depth else ()
        counts = [_rows_of(function.file, one, depth - 1) for one in returned]
        is_number = len(counts) == 1 and isinstance(counts[0], ast.Constant)
        return counts[0] if is_number else None
    maker, given = last_name(made.func), [*made.args, *(k.value for k in made.keywords)]
    shapes = [a.elts[0] for a in given if isinstance(a, (ast.Tuple, ast.List)) and a.elts]
    if maker == "split":
        shapes = given[1:2]
    elif maker == "arange":
        shapes = given[:1] if len(made.args) == 1 else []
    elif maker in ("ones", "zeros") and given and _is_number(given[0]):
        shapes = given[:1]
    elif maker not in _SHAPED:
        shapes = []
    number = shapes[0] if shapes else None
    return number if isinstance(number, (ast.Constant, ast.Name, ast.Attribute)) else None


def _is_counted(file: File, expression: ast.expr) -> bool:
    """Whether an expression makes an array with a number of rows that is written out, or given."""
    for node in ast.walk(expression):
        if _GIVEN.search(last_name(node)):
            return True
        if isinstance(node, ast.Subscript) and ast.unparse(node.slice).startswith("None"):
            return True
        if isinstance(node, ast.Call) and _counts_rows(file, node):
            return True
    return False


def _counts_rows(file: File, call: ast.Call) -> bool:
    """Whether a call is given a number, or something else as the number of the rows it makes."""
    listed = [*call.args, *(k.value for k in call.keywords if k.arg in ("shape", "num"))]
    firsts = [a.elts[0] if isinstance(a, (ast.Tuple, ast.List)) and a.elts else a for a in listed]
    if any(_is_number(file.definition(first)) for first in firsts):
        return True
    return last_name(call.func) == "split" and len(listed) > 1


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


@remembered
def _slices_of_devices(file: File) -> list[ast.Slice]:
    """Where a file takes some of the devices: `jax.devices()[:4]`."""
    nodes = file.index.nodes(ast.Subscript)
    parts = [(node.value, node.slice) for node in nodes if isinstance(node.slice, ast.Slice)]
    return [taken for part, taken in parts if "devices" in ast.unparse(part)]


def _parts_of_devices(file: File) -> list[ast.expr]:
    """The names of numbers of devices that a file takes: `jax.devices()[:n_devices]`."""
    slices = _slices_of_devices(file)
    bounds = [one.upper for one in slices if one.upper is not None and one.lower is None]
    return [bound for bound in bounds if _GIVEN.search(last_name(bound))]


@remembered
def _names_made(
    file: File, is_made: Callable[[File, ast.AST, frozenset[str]], bool]
) -> frozenset[str]:
    """The names that stand for such expressions, or for something made with one."""
    bindings = list(_bindings(file))
    names: frozenset[str] = frozenset()
    while True:
        made = {n for bound, value in bindings if is_made(file, value, names) for n in bound}
        if made <= names:
            return names
        names |= made


def _is_row(file: File, expression: ast.AST, names: frozenset[str]) -> bool:
    """Whether a number of devices, or what makes rows for all of them, is in an expression."""
    nodes = list(ast.walk(expression))
    if any(last_name(node) in names for node in nodes):
        return True
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    if any(type(value) is int and {value} == _forced(file) for value in constants):
        return True
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if any(_makes_rows(file, call) for call in calls):
        return True
    chosen = {n for node in nodes if _is_choice(node) for n in ast.walk(node)}
    return any(call not in chosen and _counts_devices(file, call) for call in calls)


@remembered
def _forced(file: File) -> set[int]:
    """The numbers of devices that a program asks for."""
    return {int(one or other) for one, other in _FORCED.findall(file.source.text)}


def _is_choice(node: ast.AST) -> bool:
    """Whether what is made of the number of devices may be another number."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.FloorDiv, ast.Sub))
    return isinstance(node, (ast.BoolOp, ast.IfExp))


def _is_other(file: File, expression: ast.AST, names: frozenset[str]) -> bool:
    """Whether an expression has a number that may or may not be the number of devices."""
    nodes = list(ast.walk(expression))
    if any(last_name(node) in names for node in nodes):
        return True
    choices = [node for node in nodes if _is_choice(node) and not isinstance(node, ast.BinOp)]
    calls = [n for node in choices for n in ast.walk(node) if isinstance(n, ast.Call)]
    return any(_counts_devices(file, call) for call in calls)


def _makes_rows(file: File, call: ast.Call) -> bool:
    others = call.args[1:] + [k.value for k in call.keywords if k.arg == "devices"]
    are_all = all(isinstance(node, ast.Call) and _counts_devices(file, node) for node in others)
    return last_name(call.func) in _MAKERS and are_all


def _counts_devices(file: File, call: ast.Call) -> bool:
    return not call.args and not call.keywords and file.called(call) in _COUNTED


def _bindings(file: File) -> Iterator[_Binding]:
    """What is bound, and the expression that it comes from: variables, attributes, parameters."""
    index = file.index
    for assignment in index.nodes(ast.Assign):
        yield [n for t in assignment.targets for n in _targets(t)], assignment.value
    for annotated in index.nodes(ast.AnnAssign):
        if annotated.value is not None:
            yield list(_targets(annotated.target)), annotated.value
    for loop in index.nodes(ast.For):
        yield list(_targets(loop.target)), loop.iter
    for clause in index.nodes(ast.comprehension):
        yield list(_targets(clause.target)), clause.iter
    functions = {node.name: node for node in index.nodes(ast.FunctionDef)}
    for name, function in functions.items():
        for returned in index.returns(function):
            yield [name], returned
    for call in index.nodes(ast.Call):
        called = functions.get(last_name(call.func))
        if called is not None:
            named = [a.arg for a in all_arguments(called.args) if a.arg not in ("self", "cls")]
            yield from (([name], value) for name, value in zip(named, call.args, strict=False))


def _targets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Tuple, ast.List)):
        for part in node.elts:
            yield from _targets(part)
    elif name := last_name(node):
        yield name
