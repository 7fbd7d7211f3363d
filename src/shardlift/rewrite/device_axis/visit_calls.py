"""How calls pass on the values that they are given: of pmap, of libraries, of the program."""

import ast
from collections.abc import Callable

from shardlift.rewrite.device_axis.cells import EACH, Cell, CellRole, Point
from shardlift.rewrite.device_axis.followed_program import PendingCall
from shardlift.rewrite.device_axis.stacked_arrays import Idiom, idiom
from shardlift.rewrite.device_axis.visitor import Visitor, visit
from shardlift.source.scopes import FUNCTIONS, has_star, is_static, positional
from shardlift.source.values import Known

# Functions that return their argument, or its elements, with the same layout.
_SAME = frozenset({
    "jax.block_until_ready", "jax.device_get", "numpy.asarray", "jax.numpy.asarray",
    "builtins.dict",
})  # fmt: skip
_ELEMENTS = frozenset({
    "builtins.iter", "builtins.next", "builtins.list", "builtins.tuple", "itertools.islice",
    "itertools.cycle", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm",
})  # fmt: skip


@visit.register
def _call(node: ast.Call, v: Visitor) -> Cell:
    if node in v.program.sites:
        return _pmap(v, node)
    made_by = idiom(v.file, node)
    if made_by is not None:
        return _idiom(v, node, made_by)
    name = v.file.called(node)
    understood = None
    if name in _LIBRARY:
        understood = _LIBRARY[name](v, node, name)
    elif name is None and isinstance(node.func, ast.Attribute):
        understood = _method(v, node, node.func)
    return _called(v, node) if understood is None else understood


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)]


def _pmap(v: Visitor, node: ast.Call) -> Cell:
    for child in _arguments(node):
        values = v.file.values(child)
        if isinstance(child, ast.Name) and all(isinstance(value, Known) for value in values):
            v.hand_on(child)  # the name itself may stand for something else later
        else:
            v.lose(child, "is given to pmap")
    site = v.program.sites[node]
    cell = Cell().add_made(Point(CellRole.MAPPED, v.at(node), site=site))
    v.program.mapped.append((site, cell))
    return cell


def _idiom(v: Visitor, node: ast.Call, made_by: Idiom) -> Cell:
    for child in _arguments(node):
        if child is not made_by.tree and not isinstance(
            child, (ast.Lambda, ast.Name, ast.Attribute)
        ):
            v.lose(child, f"is used in `{v.file.brief(child)}`")
    inner = v.value(made_by.tree)
    point = Point(made_by.role, v.at(node), made_by.tree, types_numbers=made_by.types_numbers)
    if made_by.role is CellRole.FIRST:
        inner.add_use(point)
        return v.untraced(node)
    v.escape(inner, node, f"is given another axis by `{v.file.brief(node)}`")
    made = Cell().add_made(point)
    v.program.tracked.append(made)
    return made


# ---- libraries: each gives None for a call that it does not understand


def _same(v: Visitor, node: ast.Call, name: str) -> Cell | None:
    if not node.args:
        return None
    cell = v.value(node.args[0])
    for other in _arguments(node)[1:]:
        v.lose(other, f"is given to {name.rpartition('.')[2]}")
    return cell


def _elements(v: Visitor, node: ast.Call, name: str) -> Cell | None:
    cell = _same(v, node, name)
    if cell is not None:
        cell.iterate()  # of an array, that shows its rows
    return cell.each() if cell is not None and name == "builtins.next" else cell


def _zip(v: Visitor, node: ast.Call, name: str) -> Cell | None:
    if node.keywords or has_star(node.args):
        return None
    cell = Cell()
    sources = [v.value(argument).each() for argument in node.args]
    if name == "builtins.enumerate":
        sources = [Cell(), *sources[:1]]
    for number, source in enumerate(sources):
        cell.part(EACH).part(number).unify(source)
    return cell


_LIBRARY: dict[str, Callable[[Visitor, ast.Call, str], Cell | None]] = {
    "builtins.enumerate": _zip,
    "builtins.zip": _zip,
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_ELEMENTS, _elements),
}


# ---- methods of lists, dicts, trees and arrays


def _method(v: Visitor, node: ast.Call, func: ast.Attribute) -> Cell | None:
    if v.instance(func.value) is not None or v.program.module_of(v.file, func.value):
        return None
    if any(isinstance(value, Known) for value in v.file.values(func)) or has_star(node.args):
        return None
    arguments = _arguments(node)
    match func.attr, len(arguments):
        case "append" | "extend", 1:
            base, given = v.value(func.value), v.value(arguments[0])
            base.part(EACH).unify(given.each() if func.attr == "extend" else given)
            return Cell()
        case "block_until_ready", 0:
            return v.value(func.value)
        case "items" | "values", 0:
            base, element = v.value(func.value).tree(), (cell := Cell()).part(EACH)
            (element.part(1) if func.attr == "items" else element).unify(base)
            return cell
    return None


# ---- functions and classes of the program, and unknown functions


def _called(v: Visitor, node: ast.Call) -> Cell:
    known, values = v.file.only(node.func), v.file.values(node.func)
    is_class = isinstance(known, Known) and isinstance(known.node, ast.ClassDef)
    if isinstance(known, Known) and isinstance(known.node, ast.ClassDef):  # an object is made
        values = tuple(known.file.resolver.member(known.node, "__init__"))
    functions = [f for f in values if isinstance(f, Known) and v.program.is_plain(f)]
    plain = not has_star(node.args) and all(keyword.arg for keyword in node.keywords)
    if plain and functions and len(functions) == len(values):
        v.base(node.func)
        arguments, result = [v.value(argument) for argument in node.args], Cell()
        named = {keyword.arg or "": v.value(keyword.value) for keyword in node.keywords}
        for function in functions:
            result = result.unify(_enter(v, function, node, arguments, named))
        return v.untraced(node) if is_class else result
    if plain and is_class:
        v.base(node.func)
        for child in _arguments(node):
            v.lose(child, f"is put into an object of {v.file.brief(node.func)}")
        return v.untraced(node)
    callee = _function(v, node.func)
    nodes = [arg.value if isinstance(arg, ast.Starred) else arg for arg in node.args]
    arguments = [v.value(node) for node in nodes]
    cells = [v.value(keyword.value) for keyword in node.keywords]
    call = PendingCall(v.at(node), node, callee, arguments, nodes, cells, Cell(), plain)
    v.program.pending.append(call)
    return call.result


def _function(v: Visitor, node: ast.expr) -> Cell:
    """The cell of the function of a call, if it may be one of the program."""
    if not isinstance(node, ast.Attribute) or v.instance(node.value) is not None:
        return v.value(node)
    if v.program.module_of(v.file, node.value) is not None:
        return v.value(node)
    if v.file.name(node) is None:
        # A method of a value that is not followed: the value may give itself away.
        v.program.unresolved_names.setdefault(node.attr, v.at(node))
        v.lose(node.value, f"`{v.file.brief(node)}` is called")
    return v.untraced(node)


def _enter(
    v: Visitor, known: Known, node: ast.Call, arguments: list[Cell], named: dict[str, Cell]
) -> Cell:
    """Call a function of the program: arguments become parameters."""
    assert isinstance(known.node, FUNCTIONS)
    called = v.program.function(known)
    called.calls += 1
    names = positional(known.node)
    if isinstance(known.file.index.parents.get(known.node), ast.ClassDef):
        names = names[not is_static(known.node) :]  # without `self`
    signature = known.node.args
    every = {a.arg: a for a in (*signature.posonlyargs, *signature.args, *signature.kwonlyargs)}
    for name, cell in {**dict(zip(names, arguments, strict=False)), **named}.items():
        if name in every:
            v.program.give(every[name], cell)
        else:
            v.escape(cell, node, "is given to **kwargs")
    for cell in arguments[len(names) :]:
        v.escape(cell, node, "is given to *args")
    return called.result
