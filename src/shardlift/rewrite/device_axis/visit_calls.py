"""How calls pass on the values that they are given: of pmap, of libraries, of the program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from shardlift.rewrite.device_axis.cells import (
    EACH,
    Cell,
    CellRole,
    Padding,
    Point,
    add_made,
    add_use,
    each,
    iterate,
    part,
    tree,
    unify,
)
from shardlift.rewrite.device_axis.followed_program import PendingCall
from shardlift.rewrite.device_axis.stacked_arrays import Idiom, idiom
from shardlift.rewrite.device_axis.visitor import Visitor, visits
from shardlift.rewrite.options import NotLiteralError, literal
from shardlift.source.libraries import TREE_MAPS
from shardlift.source.scopes import FUNCTIONS, positional
from shardlift.source.values import Known

# Functions that return their argument, or its elements, with the same layout.
_SAME = frozenset({"jax.block_until_ready", "jax.device_get", "numpy.asarray", "jax.numpy.asarray"})
_ELEMENTS = frozenset(
    {
        "builtins.iter", "builtins.next", "builtins.list", "builtins.tuple", "itertools.islice",
        "itertools.cycle", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm",
    }
)  # fmt: skip
_MERGED = frozenset(
    f"flax.core.{function}"
    for function in ("copy", "freeze", "unfreeze", "frozen_dict.freeze", "frozen_dict.unfreeze")
)
_LEAVES = frozenset({"jax.tree.leaves", "jax.tree_util.tree_leaves", "jax.tree_leaves"})
_TYPE_TESTS = frozenset({"builtins.isinstance", "builtins.issubclass", "builtins.super"})


@visits(ast.Call)
def _call(v: Visitor, node: ast.Call) -> Cell:
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


def _has_starred(node: ast.Call) -> bool:
    return any(isinstance(argument, ast.Starred) for argument in node.args)


def _pmap(v: Visitor, node: ast.Call) -> Cell:
    for child in _arguments(node):
        values = v.file.values(child)
        if isinstance(child, ast.Name) and all(isinstance(value, Known) for value in values):
            for value in values:  # the name itself may stand for something else later
                v.hand_on(value, child)
        else:
            v.lose(child, "is given to pmap")
    site = v.program.sites[node]
    cell = add_made(Cell(), Point(CellRole.MAPPED, v.at(node), site=site))
    v.program.mapped.append((site, cell))
    return cell


def _idiom(v: Visitor, node: ast.Call, made_by: Idiom) -> Cell:
    for child in _arguments(node):
        if child is not made_by.tree and not isinstance(
            child, (ast.Lambda, ast.Name, ast.Attribute)
        ):
            v.lose(child, f"is used in `{v.file.brief(child)}`")
    inner = v.value(made_by.tree)
    point = Point(
        made_by.role,
        v.at(node),
        made_by.tree,
        counts_all=made_by.counts_all,
        weak_types=made_by.weak_types,
    )
    if made_by.role is CellRole.FIRST:
        add_use(inner, point)
        return v.untraced(node)
    v.escape(inner, node, f"is given another axis by `{v.file.brief(node)}`")
    made = add_made(Cell(), point)
    v.program.tracked.append(made)
    return made


# ---- libraries: each gives None for a call that it does not understand


def _prefetch(v: Visitor, node: ast.Call, _name: str) -> Cell | None:
    if not node.args:
        return None
    inner = v.value(node.args[0])
    for other in _arguments(node)[1:]:
        v.lose(other, "is given to prefetch_to_device")
    add_use(part(inner, EACH), Point(CellRole.PREFETCH, v.at(node)))
    return inner


def _padded(v: Visitor, node: ast.Call, _name: str) -> Cell | None:
    """`pad_shard_unpad` of a pmap that is written inside of it."""
    site = v.program.sites.get(node.args[0]) if len(node.args) == 1 else None
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    if site is None or not options.keys() <= {"static_argnums", "static_return"}:
        return None
    try:
        numbers = literal(options.get("static_argnums", ast.Constant(0)))
        is_passed_on = literal(options.get("static_return", ast.Constant(False)))
    except NotLiteralError:
        return None
    listed = tuple(numbers) if isinstance(numbers, (tuple, list)) else (numbers,)
    if not all(isinstance(number, int) for number in listed):
        return None
    _pmap(v, node.args[0])  # type: ignore[arg-type]
    v.program.mapped.pop()  # it is called by what pads, in a way that is known
    padding = Padding(listed, bool(is_passed_on))
    cell = add_made(Cell(), Point(CellRole.MAPPED, v.at(node), site=site, padding=padding))
    v.program.mapped.append((site, cell))
    return cell


def _jitted(v: Visitor, node: ast.Call, _name: str) -> Cell | None:
    """`jax.jit(jax.pmap(f))`: called as the pmapped function is."""
    inner = node.args[0] if len(node.args) == 1 and not node.keywords else None
    is_site = isinstance(inner, ast.Call) and inner in v.program.sites
    return _pmap(v, inner) if isinstance(inner, ast.Call) and is_site else None


def _metrics(v: Visitor, node: ast.Call, _name: str) -> Cell | None:
    if len(node.args) != 1 or node.keywords:
        return None
    # Of a list only: of anything else it would take rows.
    cell = v.value(node.args[0])
    add_use(part(cell, EACH), Point(CellRole.METRICS, v.at(node), node.args[0]))
    return v.untraced(node)


def _dict(v: Visitor, node: ast.Call, name: str) -> Cell | None:
    if node.args or not all(keyword.arg for keyword in node.keywords):
        return _same(v, node, name)
    cell = Cell()
    for keyword in node.keywords:
        unify(part(cell, keyword.arg or ""), v.value(keyword.value))
    return cell


def _replace(v: Visitor, node: ast.Call, _name: str) -> Cell | None:
    """`dataclasses.replace(state, step=step)`: a state has one layout for all that it holds."""
    if len(node.args) != 1 or _has_starred(node):
        return None
    return _with_fields(v, tree(v.value(node.args[0])), node)


def _with_fields(v: Visitor, cell: Cell, node: ast.Call) -> Cell:
    """A state after the keywords of a call have replaced some of its fields."""
    for keyword in node.keywords:
        field = cell if keyword.arg is None else part(cell, keyword.arg)
        unify(field, tree(v.value(keyword.value)))
        cell = tree(cell)
    return cell


def _merged(v: Visitor, node: ast.Call, _name: str) -> Cell | None:
    """`flax.core.copy(variables, {"batch_stats": stats})`: all in one tree."""
    if not node.args or node.keywords or _has_starred(node):
        return None
    cell = Cell()
    for argument in node.args:
        cell = unify(cell, tree(v.value(argument)))
    return cell


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
        iterate(cell)  # of an array, that shows its rows
    return each(cell) if cell is not None and name == "builtins.next" else cell


def _zip(v: Visitor, node: ast.Call, name: str) -> Cell:
    if node.keywords or _has_starred(node):
        v.lose_children(node)
        return v.untraced(node)
    cell = Cell()
    sources = [each(v.value(argument)) for argument in node.args]
    if name == "builtins.enumerate":
        sources = [Cell(), *sources[:1]]
    for number, source in enumerate(sources):
        unify(part(part(cell, EACH), number), source)
    return cell


def _map(v: Visitor, node: ast.Call, _name: str) -> Cell:
    if node.keywords or _has_starred(node) or not node.args:
        v.lose_children(node)
        return v.untraced(node)
    elements = [each(v.value(argument)) for argument in node.args[1:]]
    known = _mapped_function(v, node.args[0])
    if known is not None:
        cell = Cell()
        unify(part(cell, EACH), _enter(v, known, node, elements))
        return cell
    v.lose(node.args[0], "is given to map")
    for element in elements:
        v.escape(element, node, "is given to map")
    return v.untraced(node)


def _tree_map(v: Visitor, node: ast.Call, _name: str) -> Cell | None:
    """A function of the program on every leaf: each has the layout of its tree."""
    if len(node.args) < 2 or node.keywords or _has_starred(node):
        return None
    known = _mapped_function(v, node.args[0])
    if known is None:
        return None
    leaves = [tree(v.value(argument)) for argument in node.args[1:]]
    return tree(_enter(v, known, node, leaves))


def _leaves(v: Visitor, node: ast.Call, _name: str) -> Cell | None:
    """A list of the leaves of a tree."""
    if len(node.args) != 1 or node.keywords or _has_starred(node):
        return None
    cell = Cell()
    unify(part(cell, EACH), tree(v.value(node.args[0])))
    return cell


def _mapped_function(v: Visitor, node: ast.expr) -> Known | None:
    known = v.file.only(node)
    if not isinstance(known, Known) or not v.program.is_plain(known):
        return None
    v.base(node)
    return known


_LIBRARY: dict[str, Callable[[Visitor, ast.Call, str], Cell | None]] = {
    "flax.jax_utils.pad_shard_unpad": _padded,
    "flax.jax_utils.prefetch_to_device": _prefetch,
    "flax.training.common_utils.get_metrics": _metrics,
    "jax.jit": _jitted,
    "builtins.dict": _dict,
    "dataclasses.replace": _replace,
    **dict.fromkeys(_MERGED, _merged),
    "builtins.enumerate": _zip,
    "builtins.zip": _zip,
    "builtins.map": _map,
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_ELEMENTS, _elements),
    **dict.fromkeys(TREE_MAPS, _tree_map),
    **dict.fromkeys(_LEAVES, _leaves),
}


# ---- methods of lists, dicts, trees and arrays


def _method(v: Visitor, node: ast.Call, func: ast.Attribute) -> Cell | None:
    if v.instance(func.value) is not None or v.program.module_of(v.file, func.value):
        return None
    if any(isinstance(value, Known) for value in v.file.values(func)) or _has_starred(node):
        return None
    arguments = _arguments(node)
    if func.attr in ("append", "extend", "appendleft") and len(arguments) == 1:
        base, given = v.value(func.value), v.value(arguments[0])
        unify(part(base, EACH), each(given) if func.attr == "extend" else given)
        return Cell()
    if func.attr == "astype":  # of every element: the layout stays
        cell = v.value(func.value)
        for argument in arguments:
            v.lose(argument, "is given to astype")
        return cell
    is_merged = func.attr == "copy" and all(isinstance(one, ast.Dict) for one in arguments)
    if func.attr in ("replace", "_replace") and not node.args:
        return _with_fields(v, tree(v.value(func.value)), node)
    if is_merged and arguments:
        cell = tree(v.value(func.value))
        for argument in arguments:
            cell = unify(cell, tree(v.value(argument)))
        return cell
    return None if arguments else _method_without_arguments(v, func)


def _method_without_arguments(v: Visitor, func: ast.Attribute) -> Cell | None:
    match func.attr:
        case "block_until_ready" | "copy":
            return v.value(func.value)
        case "pop" | "popleft":
            return each(v.value(func.value))
        case "clear":
            v.value(func.value)
            return Cell()
        case "items" | "values" | "keys":
            base, cell = tree(v.value(func.value)), Cell()
            if func.attr == "items":
                unify(part(part(cell, EACH), 1), base)
            elif func.attr == "values":
                unify(part(cell, EACH), base)
            return cell
    return None


# ---- functions and classes of the program, and unknown functions


def _called(v: Visitor, node: ast.Call) -> Cell:
    values = v.file.values(node.func)
    plain = not _has_starred(node) and all(keyword.arg for keyword in node.keywords)
    functions = [value for value in values if isinstance(value, Known)]
    if plain and functions and len(functions) == len(values):
        if all(v.program.is_plain(function) for function in functions):
            v.base(node.func)
            return _enter_all(v, functions, node)
        if len(functions) == 1 and isinstance(functions[0].node, ast.ClassDef):
            v.base(node.func)
            return _construct(v, functions[0], node)
    function = _function(v, node.func)
    given = _given(v, node)
    plain = given is not None and all(keyword.arg for keyword in node.keywords)
    if given is None:
        unpacked = [arg.value if isinstance(arg, ast.Starred) else arg for arg in node.args]
        given = [(arg, v.value(arg)) for arg in unpacked]
    nodes, arguments = [one for one, _ in given], [cell for _, cell in given]
    named = [v.value(keyword.value) for keyword in node.keywords]
    result = Cell()
    v.program.pending.append(
        PendingCall(v.at(node), node, function, arguments, nodes, named, result, plain)
    )
    return result


def _given(v: Visitor, node: ast.Call) -> list[tuple[ast.expr, Cell]] | None:
    """The arguments that a call gives by position; None if that is not known."""
    tests_type = v.file.called(node) in _TYPE_TESTS
    starred = [arg for arg in node.args if isinstance(arg, ast.Starred)]
    lengths = {one: _tuple_length(v, one.value) for one in starred}
    if None in lengths.values():
        return None  # before any argument is visited
    given: list[tuple[ast.expr, Cell]] = []
    for one in node.args:
        if isinstance(one, ast.Starred):
            cell = v.value(one.value)
            given += [(one, part(cell, number)) for number in range(lengths[one] or 0)]
        else:
            given.append((one, Cell() if tests_type and v.is_class(one) else v.value(one)))
    return given


def _tuple_length(v: Visitor, node: ast.expr) -> int | None:
    """How many elements an expression has, if it is a tuple that is written out, or returned so."""
    written = v.file.definition(node)
    if isinstance(written, ast.Tuple):
        is_starred = any(isinstance(element, ast.Starred) for element in written.elts)
        return None if is_starred else len(written.elts)
    known = v.file.only(written.func) if isinstance(written, ast.Call) else None
    if not isinstance(known, Known) or not v.program.is_plain(known):
        return None
    returned = known.returns()
    is_written = all(isinstance(one, ast.Tuple) for one in returned)
    lengths = {_tuple_length(v, one) for one in returned} if is_written else set()
    return lengths.pop() if len(lengths) == 1 else None


def _function(v: Visitor, node: ast.expr) -> Cell:
    """The cell of the function of a call; calling an object does not pass it on."""
    if isinstance(node, ast.Name):
        for value in v.file.values(node):
            if isinstance(value, Known):
                v.hand_on(value, node)
        return v.lookup(node)
    if not isinstance(node, ast.Attribute) or v.instance(node.value) is not None:
        return v.value(node)
    if v.program.module_of(v.file, node.value) is not None:
        return v.value(node)
    if v.file.name(node) is None:
        # A method of a value that is not followed: the value may give itself away.
        v.program.unresolved(node.attr, v.at(node))
        v.lose(node.value, f"`{v.file.brief(node)}` is called")
    return v.untraced(node)


def _enter_all(v: Visitor, functions: list[Known], node: ast.Call) -> Cell:
    arguments = [v.value(argument) for argument in node.args]
    named = {keyword.arg or "": v.value(keyword.value) for keyword in node.keywords}
    result = Cell()
    for function in functions:
        result = unify(result, _enter(v, function, node, arguments, named))
    return result


def _construct(v: Visitor, known: Known, node: ast.Call) -> Cell:
    """An object of a class of the program: its `__init__` is called."""
    assert isinstance(known.node, ast.ClassDef)
    inits = list(known.file.resolver.member(known.node, "__init__"))
    if len(inits) == 1 and isinstance(inits[0], Known) and v.program.is_plain(inits[0]):
        _enter_all(v, [inits[0]], node)
        return v.untraced(node)
    for child in _arguments(node):
        v.lose(child, f"is put into an object of {known.node.name}")
    return v.untraced(node)


def _enter(
    v: Visitor,
    known: Known,
    node: ast.Call,
    arguments: list[Cell],
    named: Mapping[str, Cell] | None = None,
) -> Cell:
    """Call a function of the program: arguments become parameters."""
    assert isinstance(known.node, FUNCTIONS)
    called = v.program.function(known)
    called.calls += 1
    signature = known.node.args
    names = positional(known.node)[_bound(known) :]
    every = {a.arg: a for a in (*signature.posonlyargs, *signature.args, *signature.kwonlyargs)}
    for name, cell in {**dict(zip(names, arguments, strict=False)), **(named or {})}.items():
        if name in every and _is_only_awaited(known, every[name]):
            continue
        if name in every:
            unify(v.program.binding(every[name]), cell)
        else:
            v.escape(cell, node, "is given to **kwargs")
    for cell in arguments[len(names) :]:
        v.escape(cell, node, "is given to *args")
    return called.result


def _is_only_awaited(known: Known, parameter: ast.arg) -> bool:
    """Whether a function waits for an argument, and does nothing else with it."""
    index = known.file.index
    inside = (node for node in index.within(known.node, ast.Name) if node.id == parameter.arg)
    calls = [index.parents.get(node) for node in inside]
    return bool(calls) and all(
        isinstance(call, ast.Call)
        and known.file.called(call) == "jax.block_until_ready"
        and isinstance(index.parents.get(call), ast.Expr)
        for call in calls
    )


def _bound(known: Known) -> int:
    """How many parameters a method has before those that a call gives."""
    owner = known.file.index.parents.get(known.node)
    decorators = getattr(known.node, "decorator_list", [])
    static = any(known.file.name(decorator) == "builtins.staticmethod" for decorator in decorators)
    return int(isinstance(owner, ast.ClassDef) and not static)
