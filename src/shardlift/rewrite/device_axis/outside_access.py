"""What code that is not followed may see: what nothing here calls or reads, or reads dynamically.

Such values cannot change. This is decided after all files were visited.
"""

from __future__ import annotations

import ast

from shardlift.rewrite.device_axis.cells import CellRole, Escape, NodePlace, Point, add_made, escape
from shardlift.rewrite.device_axis.dynamic import Reach, find_reaches
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.source.file import File
from shardlift.source.scopes import FUNCTIONS, Function
from shardlift.source.values import External, Instance, Known, Value


def expose(program: FollowedProgram) -> None:
    """Note which functions others may call, and which values they may see."""
    exposed: set[ast.AST] = set()
    for reach in find_reaches(program.files):
        _expose_names(program, reach, exposed)
    _expose_functions(program)
    _expose_globals(program)
    for (owner, _), cell in program.fields.items():
        said = program.leaked.get(owner)
        if said is not None and said.at is not None:
            escape(cell, said)
            add_made(cell, Point(CellRole.ELSEWHERE, said.at, why=said))


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
