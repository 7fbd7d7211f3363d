"""What code that is not followed may see: what nothing here calls or reads, or reads dynamically.

Such values cannot change. This is decided after all files were visited.

For names that are reached without being written there is one rule: `globals()`, `eval` and the like
make all names of their file escape; `import *`, and a module that is passed on, those of that
module. What loads a module makes all names of the modules escape that its file has a word for,
and of all others the names that it has a word for. Frames are taken to be of the same file: loggers
ask for the line of their caller.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from shardlift.rewrite.device_axis.cells import CellRole, Escape, NodePlace, Point, add_made, escape
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.source.file import File
from shardlift.source.import_graph import module_parts
from shardlift.source.libraries import LIBRARIES
from shardlift.source.scopes import FUNCTIONS, Function, Scope
from shardlift.source.values import External, Instance, Known, Value

_OF_THIS_FILE = frozenset(
    {
        "builtins", "builtins.globals", "builtins.locals", "builtins.vars", "builtins.eval",
        "builtins.exec", "fire.Fire", "sys._getframe", "sys._current_frames", "sys.settrace",
        "sys.setprofile", "gc.get_objects", "gc.get_referrers", "inspect.currentframe",
        "inspect.stack", "inspect.trace", "types.FunctionType", "cProfile.run", "profile.run",
        "timeit.timeit", "timeit.repeat", "timeit.Timer", "doctest.testmod", "code.interact",
        "IPython.embed",
    }
)  # fmt: skip
_SHOWING = frozenset({"f_locals", "f_globals", "__globals__", "__closure__", "__builtins__"})
# They are told a module, or a name in it, by text.
_LOADERS = frozenset(
    {
        "importlib.import_module", "importlib.__import__", "builtins.__import__", "sys.modules",
        "runpy.run_module", "runpy.run_path", "importlib.util.spec_from_file_location",
        "importlib.machinery.SourceFileLoader", "pkgutil.resolve_name", "pydoc.locate",
        "inspect.getmodule", "unittest.mock.patch", "mock.patch", "hydra.utils.get_method",
        "hydra.utils.get_object", "hydra.utils.instantiate", "hydra.utils.call",
    }
)  # fmt: skip
_PATCHERS = frozenset({"patch", "setattr"})  # methods of `mocker` and `monkeypatch`
_ALL_OF_A_MODULE = frozenset({"__dict__", "__getattribute__"})
_WORD = re.compile(r"\w+")
_Modules = dict[File, tuple[str, ...]]


@dataclass(frozen=True)
class Reach:
    """A place from which names of a scope can be read or set; all of them if `names` is None."""

    at: NodePlace
    file: File
    scope: Scope
    names: frozenset[str] | None = None


def expose(program: FollowedProgram) -> None:
    """Note which functions others may call, and which values they may see."""
    exposed: set[ast.AST] = set()
    for reach in _reaches(program.files):
        _expose_names(program, reach, exposed)
    _expose_functions(program)
    _expose_globals(program)
    for (owner, _), cell in program.fields.items():
        said = program.leaked.get(owner)
        if said is not None and said.at is not None:
            escape(cell, said)
            add_made(cell, Point(CellRole.ELSEWHERE, said.at, why=said))


def _reaches(files: list[File]) -> Iterator[Reach]:
    """Every dynamic access in the files of a program."""
    modules = {file: module_parts(file.path) for file in files}
    for file in files:
        if file.source.cells is not None:  # its cells show values, and magics may use all names
            yield from _all_names(NodePlace(file, file.index.root), file)
        for kind in (ast.Name, ast.Attribute):
            for node in file.index.nodes(kind):
                yield from _named(file, node, modules)
        for alias in file.index.nodes(ast.alias):
            yield from _imported(file, alias, modules)


def _all_names(at: NodePlace, file: File) -> Iterator[Reach]:
    return (Reach(at, file, scope) for scope in file.index.opens.values())


def _named(file: File, node: ast.expr, modules: _Modules) -> Iterator[Reach]:
    """What a name or attribute gives access to."""
    at, parent, values = NodePlace(file, node), file.index.parents.get(node), file.values(node)
    paths = {value.path for value in values if isinstance(value, External)}
    name = getattr(node, "attr", None) or getattr(node, "id", "")
    given = parent.args if isinstance(parent, ast.Call) and parent.func is node else []
    is_whole = not isinstance(parent, ast.Attribute) or parent.attr in _ALL_OF_A_MODULE
    patches = name in _PATCHERS and any(isinstance(one, ast.Constant) for one in given[:1])
    if name in _SHOWING or (is_whole and paths & _OF_THIS_FILE):
        if not ("builtins.vars" in paths and given):  # the attributes of an object
            yield from _all_names(at, file)
    elif paths & _LOADERS or patches:
        words = frozenset() if isinstance(parent, ast.Compare) else _words(file)
        statement = file.index.statement(node)
        own = {n.id for n in ast.walk(statement or node) if isinstance(n, ast.Name)} & {"__name__"}
        for one, parts in modules.items():
            is_named = words & set(parts) or (own and one is file)
            yield Reach(at, one, one.index.module, None if is_named else words)
    elif is_whole or len(values) > 1:
        for path in sorted(paths):
            module = file.project.module(tuple(path.split(".")), file.path)
            inside = modules.get(module, ()) if module is not None else ()  # of a package
            for one, parts in modules.items() if inside else ():
                if one is module or parts[: len(inside)] == inside:
                    yield Reach(at, one, one.index.module)


def _imported(file: File, alias: ast.alias, modules: _Modules) -> Iterator[Reach]:
    """`from steps import *`, and imports of a module that is not found, or found twice."""
    statement = file.index.parents[alias]
    is_from = isinstance(statement, ast.ImportFrom)
    base = file.resolver.imported_module(statement) if is_from else ""  # type: ignore[arg-type]
    is_starred = alias.name == "*"
    for dotted in filter(None, [base] if is_starred else [base, f"{base}.{alias.name}".strip(".")]):
        path = tuple(dotted.split("."))
        if path[0] in LIBRARIES or (not is_starred and file.project.has_module(path, file.path)):
            continue
        module = file.project.module(path, file.path)
        named = [one for one, parts in modules.items() if path[-1] in ("__main__", *parts[-1:])]
        for reached in [module] if module in modules else named:
            words = None if is_starred else frozenset(_WORD.findall(file.source.text))
            yield Reach(NodePlace(file, statement), reached, reached.index.module, words)


def _words(file: File) -> frozenset[str]:
    """The words in strings, and the attributes that are read."""
    texts = (n.value for n in file.index.nodes(ast.Constant) if isinstance(n.value, str))
    words = (word for text in texts for word in _WORD.findall(text))
    return frozenset((*words, *(node.attr for node in file.index.nodes(ast.Attribute))))


def _expose_names(program: FollowedProgram, reach: Reach, exposed: set[ast.AST]) -> None:
    """Names that are read in a way that is not followed: by `globals()`, `import *`."""
    said = Escape(reach.at, f"may be reached by `{reach.at.file.brief(reach.at.node)}`", True)
    names = reach.scope.names
    for name in names if reach.names is None else names.keys() & reach.names:
        for node in (node for node in names[name] if node not in exposed):
            exposed.add(node)
            escape(program.bound(reach.file, node), said)
            for value in reach.file.resolver.bound(node):
                _expose_value(program, value, said)
            module = _module_of(program, reach.file, node)
            if module is not None:
                _expose_names(program, Reach(reach.at, module, module.index.module), exposed)


def _expose_value(program: FollowedProgram, value: Value, said: Escape) -> None:
    if isinstance(value, Known) and isinstance(value.node, FUNCTIONS):
        program.open(program.function(value), said)
    elif isinstance(value, (Known, Instance)):
        assert isinstance(value.node, ast.ClassDef)
        program.leaked.setdefault(program.top_class(value.node, value.file), said)


def _module_of(program: FollowedProgram, file: File, node: ast.AST) -> File | None:
    """The module that a name is bound to, or from which `import *` takes names."""
    statement = file.index.parents.get(node)
    if isinstance(node, ast.alias) and isinstance(statement, ast.ImportFrom) and node.name == "*":
        return program.module(file, file.resolver.imported_module(statement))
    paths = [v.path for v in file.resolver.bound(node) if isinstance(v, External)]
    return next((module for path in paths if (module := program.module(file, path))), None)


def _expose_functions(program: FollowedProgram) -> None:
    for file in program.files:
        for owner in file.index.nodes(ast.ClassDef):
            program.top_class(owner, file)  # which notes what a library may see into
    overridden = _overridden(program)
    for file in program.files:
        for node in file.index.functions():
            said = _other_callers(program, file, node, overridden)
            if said is not None:
                program.open(program.function(Known(node, file)), said)


def _other_callers(
    program: FollowedProgram, file: File, node: Function, overridden: set[ast.AST]
) -> Escape | None:
    """Why the calls of a function are not all known."""
    name, owner = getattr(node, "name", ""), file.index.parents.get(node)
    if name in program.unresolved_names and not _is_local(file, node):
        return Escape(program.unresolved_names[name], f"may be what {name} returns", True)
    if isinstance(owner, ast.ClassDef):
        leaked = program.leaked.get(program.top_class(owner, file))
        if leaked is not None:
            return leaked
    if name.startswith("__") and name.endswith("__") and name != "__init__":
        return Escape(
            NodePlace(file, node), f"is returned by {name}, which Python itself calls", True
        )
    if node in overridden:
        return Escape(NodePlace(file, node), f"is returned by {name}, which is overridden", True)
    if not program.function(Known(node, file)).calls:
        what = f"{name}, which nothing here calls" if name else "a lambda"
        return Escape(NodePlace(file, node), f"is returned by {what}", True)
    return None


def _is_local(file: File, node: ast.AST) -> bool:
    """Whether a function is defined inside another, so that it is not an attribute."""
    return file.index.function_around(node) is not None


def _overridden(program: FollowedProgram) -> set[ast.AST]:
    """Methods that a derived class may override: a call may mean either."""
    by_name: dict[str, list[ast.AST]] = {}
    derived: set[str] = set()
    for file in program.files:
        for owner in file.index.nodes(ast.ClassDef):
            for node in owner.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    by_name.setdefault(node.name, []).append(node)
                    if owner.bases:
                        derived.add(node.name)
    return {node for name in derived for node in by_name[name] if len(by_name[name]) > 1}


def _expose_globals(program: FollowedProgram) -> None:
    for file in program.files:
        for name, bound in file.index.module.names.items():
            for node in bound if (file, name) not in program.read else ():
                why = f"is `{name}` of its module, which nothing here reads"
                escape(program.bound(file, node), Escape(NodePlace(file, node), why, outside=True))
