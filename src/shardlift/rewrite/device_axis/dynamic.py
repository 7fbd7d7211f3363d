"""Names that a program reaches without writing them: `globals()`, `eval`, `importlib`, `import *`.

One rule: such an access makes all names escape of the file that it is in, or of the module that it
names or is given. If that module is not known, it may be any: then the names escape that the file
has a word for. Frames are taken to be of the same file: loggers ask for the line of their caller.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shardlift.rewrite.device_axis.cells import NodePlace
from shardlift.source.file import File
from shardlift.source.import_graph import module_parts
from shardlift.source.libraries import LIBRARIES
from shardlift.source.scopes import Scope
from shardlift.source.values import External

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
_Name = ast.Name | ast.Attribute
_Modules = dict[File, tuple[str, ...]]


@dataclass(frozen=True)
class Reach:
    """A place from which names of a scope can be read or set; all of them if `names` is None."""

    at: NodePlace
    file: File
    scope: Scope
    names: frozenset[str] | None = None


def find_reaches(files: Sequence[File]) -> Iterator[Reach]:
    """Every dynamic access in the files of a program."""
    modules = {file: module_parts(file.path) for file in files}
    words_of = functools.cache(lambda file: frozenset(_WORD.findall(file.source.text)))
    for file in files:
        if file.source.cells is not None:  # its cells show values, and magics may use all names
            yield from _all_names(NodePlace(file, file.index.root), file)
        names: list[_Name] = [*file.index.nodes(ast.Name), *file.index.nodes(ast.Attribute)]
        for node in names:
            yield from _named(file, node, modules)
        for alias in file.index.nodes(ast.alias):
            yield from _imported(file, alias, modules, words_of)


def _all_names(at: NodePlace, file: File) -> Iterator[Reach]:
    return (Reach(at, file, scope) for scope in file.index.opens.values())


def _named(file: File, node: _Name, modules: _Modules) -> Iterator[Reach]:
    """What a name or attribute gives access to."""
    at, parent, values = NodePlace(file, node), file.index.parents.get(node), file.values(node)
    paths = {value.path for value in values if isinstance(value, External)}
    name = node.attr if isinstance(node, ast.Attribute) else node.id
    given = parent.args if isinstance(parent, ast.Call) and parent.func is node else []
    is_whole = not isinstance(parent, ast.Attribute) or parent.attr in _ALL_OF_A_MODULE
    if name in _SHOWING or (is_whole and paths & _OF_THIS_FILE):
        if not ("builtins.vars" in paths and given):  # the attributes of an object
            yield from _all_names(at, file)
    elif paths & _LOADERS or (name in _PATCHERS and given and _text(given[0])):
        if not isinstance(parent, ast.Compare):  # "ipykernel" in sys.modules
            asked = parent.slice if isinstance(parent, ast.Subscript) else next(iter(given), None)
            yield from _loaded(at, asked, modules)
    elif is_whole or len(values) > 1:
        for path in sorted(paths):
            module = file.project.module(tuple(path.split(".")), file.path)
            inside = modules.get(module) if module is not None else None  # of a package
            for one, parts in modules.items() if inside else ():
                if one is module or parts[: len(inside or ())] == inside:
                    yield Reach(at, one, one.index.module)


def _loaded(at: NodePlace, asked: ast.expr | None, modules: _Modules) -> Iterator[Reach]:
    """The modules that a loader may be asked for."""
    asked = at.file.definition(asked) if asked is not None else None
    if isinstance(asked, ast.Name) and asked.id == "__name__":
        yield Reach(at, at.file, at.file.index.module)
    elif text := _text(asked):
        words = set(_WORD.findall(text))
        named = [file for file, parts in modules.items() if words & set(parts)]
        yield from (Reach(at, file, file.index.module) for file in named)
    else:
        known = _words(at.file)
        yield from (Reach(at, file, file.index.module, known) for file in modules)


def _imported(
    file: File, alias: ast.alias, modules: _Modules, words_of: Callable[[File], frozenset[str]]
) -> Iterator[Reach]:
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
            users = [one for one in modules if one is not reached] if is_starred else [file]
            words = frozenset[str]().union(*(words_of(user) for user in users))
            yield Reach(NodePlace(file, statement), reached, reached.index.module, words)


def _text(node: ast.expr | None) -> str | None:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text else None  # type: ignore[union-attr]


def _words(file: File) -> frozenset[str]:
    """The words in strings, and the attributes that are read."""
    texts = filter(None, map(_text, file.index.nodes(ast.Constant)))
    words = (word for text in texts for word in _WORD.findall(text))
    return frozenset((*words, *(node.attr for node in file.index.nodes(ast.Attribute))))
