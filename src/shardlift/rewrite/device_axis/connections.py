"""What is decided after all files were visited: calls, indices, and what others may reach.

By then all that a name may stand for is known. `connect` joins calls with the pmapped functions
that reach them, and picks elements and rows. `expose` notes what code that is not followed may
see: what nothing here calls or reads, or what is reached without its name. Such values cannot
change.

For names that are reached without being written there is one rule: `globals()`, `eval` and the like
make all names of their file escape; `import *`, and a module that is passed on, those of that
module. What loads a module makes all names of the modules escape that its file has a word for,
and of all others the names that it has a word for. Frames are taken to be of the same file: loggers
ask for the line of their caller.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from shardlift.rewrite.device_axis import reasons
from shardlift.rewrite.device_axis.cells import EACH, Cell, CellRole, Escape, NodePlace, Point
from shardlift.rewrite.device_axis.followed_program import FollowedProgram, Indexed, PendingCall
from shardlift.rewrite.device_axis.global_sites import GlobalSite, OutputKind
from shardlift.source.file import File
from shardlift.source.import_graph import module_parts
from shardlift.source.libraries import LIBRARIES
from shardlift.source.outputs import is_scalar
from shardlift.source.scopes import Function, Scope, last_name
from shardlift.source.values import External, Known

_OF_THIS_FILE = frozenset({
    "builtins", "builtins.globals", "builtins.locals", "builtins.vars", "builtins.eval",
    "builtins.exec", "fire.Fire", "sys._getframe", "sys._current_frames", "sys.settrace",
    "sys.setprofile", "gc.get_objects", "gc.get_referrers", "inspect.currentframe",
    "inspect.stack", "inspect.trace", "types.FunctionType", "cProfile.run", "profile.run",
    "timeit.timeit", "timeit.repeat", "timeit.Timer", "doctest.testmod", "code.interact",
    "IPython.embed",
})  # fmt: skip
_SHOWING = frozenset({"f_locals", "f_globals", "__globals__", "__closure__", "__builtins__"})
# They are told a module, or a name in it, by text.
_LOADERS = frozenset({
    "importlib.import_module", "importlib.__import__", "builtins.__import__", "sys.modules",
    "runpy.run_module", "runpy.run_path", "importlib.util.spec_from_file_location",
    "importlib.machinery.SourceFileLoader", "pkgutil.resolve_name", "pydoc.locate",
    "inspect.getmodule", "unittest.mock.patch", "mock.patch", "hydra.utils.get_method",
    "hydra.utils.get_object", "hydra.utils.instantiate", "hydra.utils.call",
})  # fmt: skip
_ALL_OF_A_MODULE = frozenset({"__dict__", "__getattribute__"})
# Classes that a class may be derived from without another's code seeing its attributes.
_PLAIN_BASES = frozenset(
    map(External, ("builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol"))
)


def connect(program: FollowedProgram) -> None:
    """Connect calls with the pmapped functions that reach them."""
    program.lose_the_rest()
    rows: list[Indexed] = []
    for indexed in program.indexed:  # a pmapped function may be an element of a tuple
        if indexed.base.has_elements():
            indexed.base.part(indexed.index).unify(indexed.result)
        else:
            rows.append(indexed)
    # What is called and is no pmapped function is unknown, before any call is connected.
    for call in sorted(program.pending, key=lambda call: bool(_sites_of(call))):
        _connect_call(program, call)
    for indexed in rows:
        _pick(indexed)
    for site in program.sites.values():  # what all calls take, and what all return, has one layout
        for cells in (site.results, *site.given.values()):
            for cell in cells[1:]:
                cells[0].unify(cell)
        for result in site.results[:1]:
            _split(site, result)
    for site, cell in program.mapped:  # one that goes where it is not followed does not change
        if (use := cell.root().escaped) is not None:
            site.obstacles.append(_passed_on(use))


def _passed_on(use: Escape) -> reasons.Obstacle:
    advice = reasons.ALL_FILES if use.outside else reasons.CALL_BY_NAME
    return reasons.obstacle(reasons.ObstacleKind.PASSED_ON, escape=use, advice=advice)


def _sites_of(call: PendingCall) -> set[GlobalSite]:
    made = call.function.root().made
    return {m.site for m in made if m.role is CellRole.MAPPED and m.site is not None}


def _connect_call(program: FollowedProgram, call: PendingCall) -> None:
    sites = _sites_of(call)
    others = [made for made in call.function.root().made if made.role is not CellRole.MAPPED]
    if len(sites) != 1 or others:
        for site in sites:
            why = reasons.obstacle(reasons.ObstacleKind.SEVERAL, at=call.at)
            if others and others[0].why is not None:
                why = _passed_on(others[0].why)
            site.obstacles.append(why)
        _call_unknown(call)
        return
    (site,) = sites
    if not call.plain or call.named or site.arguments not in (None, len(call.arguments)):
        site.obstacles.append(reasons.obstacle(reasons.ObstacleKind.ARGUMENTS, at=call.at))
    site.arguments = len(call.arguments)
    for argument in call.named:
        argument.escape(Escape(call.at, "is given by keyword"))
    for position, argument in enumerate(call.arguments):
        if site.in_axis(position) is None:
            argument.escape(Escape(call.at, "is given to every device whole, by in_axes=None"))
        else:
            at = NodePlace(call.at.file, call.nodes[position]) if call.plain else call.at
            # Of a list of trees, the trees: they have the layout.
            leaves = argument.add_use(Point(CellRole.ARGUMENT, at, site=site, position=position))
            site.given.setdefault(position, []).append(leaves)
            program.tracked.append(leaves)
    call.result.add_made(Point(CellRole.OUTPUT, call.at, site=site))
    site.results.append(call.result)
    program.tracked.append(call.result)


def _call_unknown(call: PendingCall) -> None:
    what = call.at.file.brief(call.call.func)
    for argument in (*call.arguments, *call.named):
        argument.escape(Escape(call.at, f"is given to {what}"))
    call.result.add_made(Point(CellRole.ELSEWHERE, call.at))


def _pick(indexed: Indexed) -> None:
    """Take an element or a row, now that all outputs are known."""
    base = indexed.base.root()
    kinds = {made.site.kind(made.path) if made.site is not None else None for made in base.made}
    if not base.collapsed and (base.has_elements() or kinds == {OutputKind.TREE}):
        base.part(indexed.index).unify(indexed.result)
        return
    indexed.result.add_made(Point(CellRole.ELSEWHERE, indexed.at))
    is_array = kinds == {OutputKind.ARRAY} or is_scalar(indexed.at.file, indexed.node)
    if indexed.index == 0 and is_array:
        base.add_use(Point(CellRole.INDEX, indexed.at, indexed.node.value))
    else:
        text = indexed.at.file.brief(indexed.node)
        base.escape(Escape(indexed.at, f"is indexed in `{text}`"))


def _split(site: GlobalSite, result: Cell) -> None:
    """Give each element of an output tuple a class of its own; any other output is one class."""
    result = result.root()
    if EACH in result.parts or (result.collapsed and not result.parts):
        result.collapse()
        return
    if site.kind(()) is not OutputKind.TREE or site.length() is None:
        for key, inner in list(result.parts.items()):
            if isinstance(key, int):
                why = "is unpacked, and it is not known to be a tuple"
                inner.escape(Escape(NodePlace(site.file, site.node), why))
        result.collapse()
    elif any(not isinstance(key, int) for key in result.parts):
        result.collapse()
    else:
        for inner in list(result.parts.values()):
            inner.collapse()


# ---- what others may reach


class Reach(NamedTuple):
    """A place from which names of a file can be read or set: some of its module, or all it has."""

    at: NodePlace
    file: File
    names: frozenset[str] | None = None  # None: all of the module
    is_deep: bool = False  # the names of its functions as well


def expose(program: FollowedProgram) -> None:
    """Note which functions others may call, and which values they may see."""
    exposed: set[ast.AST] = set()
    for reach in _reaches(program.files):
        for scope in reach.file.index.opens.values() if reach.is_deep else ():
            _expose_names(program, reach, scope, exposed)
        _expose_names(program, reach, reach.file.index.module, exposed)
    _expose_functions(program)
    for file in program.files:
        for name, bound in file.index.module.names.items():
            for node in bound if (file, name) not in program.read else ():
                why = f"is `{name}` of its module, which nothing here reads"
                program.bound(file, node).escape(Escape(NodePlace(file, node), why, outside=True))
    for (owner, _), cell in program.fields.items():
        use = program.leaked.get(owner)
        if use is not None and use.at is not None:
            cell.escape(use)
            cell.add_made(Point(CellRole.ELSEWHERE, use.at, why=use))


def _reaches(files: list[File]) -> Iterator[Reach]:
    """Every dynamic access in the files of a program."""
    modules = {file: module_parts(file.path) for file in files}
    for file in files:
        if file.source.cells is not None:  # its cells show values, and magics may use all names
            yield Reach(NodePlace(file, file.index.root), file, is_deep=True)
        for kind in (ast.Name, ast.Attribute):
            for node in file.index.nodes(kind):
                yield from _named(file, node, modules)
        for alias in file.index.nodes(ast.alias):
            yield from _imported(file, alias, modules)


def _named(file: File, node: ast.expr, modules: Mapping[File, tuple[str, ...]]) -> Iterator[Reach]:
    """What a name or attribute gives access to."""
    at, parent, values = NodePlace(file, node), file.index.parents.get(node), file.values(node)
    paths = {value.path for value in values if isinstance(value, External)}
    given = parent.args if isinstance(parent, ast.Call) and parent.func is node else []
    is_whole = not isinstance(parent, ast.Attribute) or parent.attr in _ALL_OF_A_MODULE
    if last_name(node) in _SHOWING or (is_whole and paths & _OF_THIS_FILE):
        if not ("builtins.vars" in paths and given):  # the attributes of an object
            yield Reach(at, file, is_deep=True)
    elif paths & _LOADERS:
        words = frozenset() if isinstance(parent, ast.Compare) else _words(file)
        statement = file.index.statement(node) or node
        names_itself = any(n.id == "__name__" for n in file.index.within(statement, ast.Name))
        for module, parts in modules.items():
            is_named = words & {*parts} or (module is file and names_itself)
            yield Reach(at, module, None if is_named else words)
    elif is_whole or len(values) > 1:
        for path in sorted(paths):
            reached = file.project.module(tuple(path.split(".")), file.path)
            inside = modules.get(reached, ()) if reached is not None else ()
            for module, parts in modules.items():
                if inside and parts[: len(inside)] == inside:  # of a package, its modules
                    yield Reach(at, module)


def _imported(
    file: File, alias: ast.alias, modules: Mapping[File, tuple[str, ...]]
) -> Iterator[Reach]:
    """`from steps import *`, and imports of a module that is not found, or found twice."""
    statement = file.index.parents[alias]
    is_starred = alias.name == "*"
    base = file.resolver.imported_module(statement) if isinstance(statement, ast.ImportFrom) else ""
    for dotted in filter(None, [base] if is_starred else [base, f"{base}.{alias.name}".strip(".")]):
        path = tuple(dotted.split("."))
        if path[0] in LIBRARIES or (not is_starred and file.project.has_module(path, file.path)):
            continue
        found = file.project.module(path, file.path)
        words = None if is_starred else _words(file)
        for module, parts in modules.items():
            is_named = path[-1] in ("__main__", *parts[-1:])
            if module is found or (found not in modules and is_named):
                yield Reach(NodePlace(file, statement), module, words)


def _words(file: File) -> frozenset[str]:
    """The words in strings, and the attributes and imports that are read."""
    index = file.index
    texts = (n.value for n in index.nodes(ast.Constant) if isinstance(n.value, str))
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    words |= {node.attr for node in index.nodes(ast.Attribute)}
    return frozenset(words | {node.name for node in index.nodes(ast.alias)})


def _expose_names(
    program: FollowedProgram, reach: Reach, scope: Scope, exposed: set[ast.AST]
) -> None:
    """Names that are read in a way that is not followed, and what they stand for."""
    use = Escape(reach.at, f"may be reached by `{reach.at.file.brief(reach.at.node)}`", True)
    names = scope.names.keys() if reach.names is None else scope.names.keys() & reach.names
    for node in [node for name in names for node in scope.names[name] if node not in exposed]:
        exposed.add(node)
        program.bound(reach.file, node).escape(use)
        for value in reach.file.resolver.bound(node):
            program.hand_on(value, reach.at, use)
            module = program.module(reach.file, value.path) if isinstance(value, External) else None
            if module is not None:
                _expose_names(program, Reach(reach.at, module), module.index.module, exposed)


def _expose_functions(program: FollowedProgram) -> None:
    owners = [(file, owner) for file in program.files for owner in file.index.nodes(ast.ClassDef)]
    for file, owner in owners:
        _expose_class(program, file, owner)
    for file in program.files:
        for function in file.index.functions():
            use = _other_callers(program, file, function)
            if use is not None:
                program.open(program.function(Known(function, file)), use)


def _expose_class(program: FollowedProgram, file: File, owner: ast.ClassDef) -> None:
    """A class that is derived from another, and that one: each may use what the other has.

    So may the decorator of a class, such as `dataclass`, which sets its fields.
    """
    values = [file.values(base) for base in owner.bases]
    is_plain = all(bases and _PLAIN_BASES.issuperset(bases) for bases in values)
    if owner.keywords or owner.decorator_list or not is_plain:
        why = f"is an attribute of the class {owner.name}, which is derived or decorated"
        related = [Known(owner, file), *(value for bases in values for value in bases)]
        for value in related:
            if isinstance(value, Known) and isinstance(value.node, ast.ClassDef):
                use = Escape(NodePlace(file, owner), why, outside=True)
                program.leaked.setdefault(value.node, use)


def _other_callers(program: FollowedProgram, file: File, node: Function) -> Escape | None:
    """Why the calls of a function are not all known."""
    name, owner, at = getattr(node, "name", ""), file.index.parents.get(node), NodePlace(file, node)
    if name in program.unresolved_names and file.index.function_around(node) is None:
        return Escape(program.unresolved_names[name], f"may be what {name} returns", True)
    if isinstance(owner, ast.ClassDef) and owner in program.leaked:
        return program.leaked[owner]
    if name.startswith("__") and name.endswith("__") and name != "__init__":
        return Escape(at, f"is returned by {name}, which Python itself calls", True)
    if not program.function(Known(node, file)).calls:
        what = f"{name}, which nothing here calls" if name else "a lambda"
        return Escape(at, f"is returned by {what}", True)
    return None
