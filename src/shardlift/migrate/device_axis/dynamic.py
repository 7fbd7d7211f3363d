"""Names that a program reaches without writing them: `globals()`, `eval`, `importlib`, `import *`.

Such a reader cannot be followed. What it can reach keeps its device axis: the names of a scope, or
those of a module. Where the text says which name is read (`globals()["state"]`), only that one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardlift.migrate.device_axis.cells import Place
from shardlift.source.file import File
from shardlift.source.modules import LIBRARIES, module_parts
from shardlift.source.scopes import FUNCTIONS, Scope
from shardlift.source.values import External

# They see the variables of whoever calls them, and of those around.
_FRAMES = frozenset(
    {
        "sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile", "gc.get_objects",
        "gc.get_referrers", "inspect.currentframe", "inspect.stack", "inspect.trace",
        "inspect.getouterframes", "inspect.getinnerframes", "IPython.embed", "__builtins__",
    }
)  # fmt: skip
_FRAME_ATTRIBUTES = frozenset(
    {
        "f_back", "f_globals", "f_locals", "tb_frame", "gi_frame", "cr_frame", "ag_frame",
        "__globals__", "__closure__", "__builtins__", "cell_contents",
    }
)  # fmt: skip
# They run text.
_EVALUATORS = frozenset(
    {
        "builtins.eval", "builtins.exec", "cProfile.run", "cProfile.runctx", "profile.run",
        "profile.runctx", "timeit.timeit", "timeit.repeat", "timeit.Timer", "doctest.testmod",
        "doctest.testfile", "code.interact", "code.InteractiveConsole", "types.FunctionType",
        "code.InteractiveInterpreter",
    }
)  # fmt: skip
# They are told a module, or a name in it, by text.
_LOADERS = frozenset(
    {
        "importlib.import_module", "builtins.__import__", "importlib.__import__", "sys.modules",
        "importlib.util.find_spec", "importlib.util.spec_from_file_location", "imp.load_source",
        "importlib.util.module_from_spec", "importlib.machinery.SourceFileLoader",
        "runpy.run_module", "runpy.run_path", "pkgutil.resolve_name", "pkgutil.get_loader",
        "imp.load_module", "pydoc.locate", "unittest.mock.patch", "mock.patch",
        "hydra.utils.get_method", "hydra.utils.get_object", "hydra.utils.get_class",
        "hydra.utils.instantiate", "hydra.utils.call",
    }
)  # fmt: skip
_DICT_METHODS = frozenset({"get", "items", "values", "keys", "update", "pop", "copy", "setdefault"})
_ABOUT_MODULES = frozenset(
    {"__name__", "__file__", "__doc__", "__all__", "__path__", "__package__", "__spec__"}
)
_Name = ast.Name | ast.Attribute
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Reach:
    """A place from which names of a scope can be read or set; all of them if `names` is None."""

    at: Place
    file: File
    scope: Scope
    names: frozenset[str] | None = None


def find_reaches(files: Sequence[File]) -> Iterator[Reach]:
    """Every dynamic access in the files of a program."""
    finder = _Finder(files)
    for file in files:
        yield from finder.imports(file)
        names: list[_Name] = [*file.index.nodes(ast.Name), *file.index.nodes(ast.Attribute)]
        for node in names:
            if isinstance(node.ctx, ast.Load):
                yield from finder.mention(file, node)


class _Finder:
    """The files, and how a text names them."""

    def __init__(self, files: Sequence[File]) -> None:
        """Their words are looked up when they are asked for."""
        self.files = files
        self._words: dict[str, frozenset[str]] = {}

    def mention(self, file: File, node: _Name) -> Iterator[Reach]:
        """What an expression gives access to."""
        at, parent = Place(file, node), file.index.parents.get(node)
        is_base = isinstance(parent, ast.Attribute)
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        if isinstance(node, ast.Attribute) and node.attr in _FRAME_ATTRIBUTES:
            yield from self._everything(at)
            return
        module = self._module(file, node)
        if module is not None:
            is_hidden = isinstance(parent, ast.Attribute) and _is_special(parent.attr)
            if not is_base or is_hidden:
                yield Reach(at, module, module.index.module, _read_of_module(file, node))
            return
        path = file.name(node)
        if path in _FRAMES or (path == "builtins" and not is_base):
            yield from self._everything(at)
        elif path in _EVALUATORS:
            yield from self._modules(at, self.files) if call else self._everything(at)
            yield from self._around(at)
        elif path in ("builtins.locals", "builtins.vars", "builtins.globals"):
            yield from self._namespace(at, path, call)
        elif path == "fire.Fire" and call and not call.args:  # the names of its caller's module
            yield Reach(at, file, file.index.module)
        elif path in _LOADERS:
            yield from self._loaded(at, call)

    def _namespace(self, at: Place, path: str, call: ast.Call | None) -> Iterator[Reach]:
        """`globals()`, `locals()`, `vars()`; called by another name, that is of whoever calls."""
        if call is None:
            yield from self._everything(at)
        elif path == "builtins.globals":
            yield Reach(at, at.file, at.file.index.module, _read_of_dict(at.file, call))
        elif not call.args:
            yield from self._around(at, _read_of_dict(at.file, call))

    def _around(self, at: Place, names: frozenset[str] | None = None) -> Iterator[Reach]:
        """The scope that a place is in, and the functions around it."""
        scope = _scope_of(at)
        while scope is not None:
            yield Reach(at, at.file, scope, names)
            is_function = isinstance(scope.node, FUNCTIONS) or scope.is_comprehension
            scope = (
                scope.parent if is_function and scope.parent is not at.file.index.module else None
            )

    def _everything(self, at: Place) -> Iterator[Reach]:
        for file in self.files:
            for scope in file.index.opens.values():
                yield Reach(at, file, scope)

    def _modules(
        self, at: Place, files: Sequence[File], names: frozenset[str] | None = None
    ) -> Iterator[Reach]:
        for file in files:
            yield Reach(at, file, file.index.module, names)

    def _loaded(self, at: Place, call: ast.Call | None) -> Iterator[Reach]:
        """The modules that a loader may be asked for."""
        parent = at.file.index.parents.get(at.node)
        asked: ast.expr
        result: ast.expr
        if isinstance(parent, ast.Subscript) and parent.value is at.node:  # sys.modules[…]
            asked, result = parent.slice, parent
        elif call is not None and call.args:
            asked, result = call.args[0], call
        else:
            yield from self._modules(at, self.files)
            return
        names = _read_of_module(at.file, result) or _read_of_dict(at.file, result)
        yield from self._modules(at, self._named(at.file, asked), names)

    def _named(self, file: File, node: ast.expr) -> Sequence[File]:
        """The files that a text may name: all where it is computed from its beginning."""
        node = file.definition(node)
        if isinstance(node, ast.Name) and node.id == "__name__":
            return [file]
        text = _beginning(node)
        if isinstance(node, ast.Constant):
            words = set(_WORD.findall(text))
            known = [one for one in self.files if words & set(module_parts(one.path)[-1:])]
            return self.files if "__main__" in words else known
        package = text.rpartition(".")[0].rpartition(".")[2]
        if not package:
            return self.files
        return [one for one in self.files if package in module_parts(one.path)]

    def _module(self, file: File, node: ast.expr) -> File | None:
        value = file.only(node)
        if not isinstance(value, External):
            return None
        found = file.project.module(tuple(value.path.split(".")), file.path)
        return found if found in self.files else None

    # ---- imports that give no name to what they bind, or whose module is not certain

    def imports(self, file: File) -> Iterator[Reach]:
        """`from steps import *`, and imports that several files answer to."""
        for alias in file.index.nodes(ast.alias):
            statement, at = file.index.parents[alias], Place(file, alias)
            base = ""
            if isinstance(statement, ast.ImportFrom):
                base = file.resolver.imported_module(statement)
            if alias.name == "*":
                yield from self._starred(Place(file, statement), base)
                continue
            for dotted in (base, f"{base}.{alias.name}".strip(".")):
                if not dotted or dotted.partition(".")[0] in LIBRARIES:
                    continue
                if file.project.module(tuple(dotted.split(".")), file.path) is None:
                    yield from self._modules(at, self._candidates(dotted), self._words_of(file))

    def _starred(self, at: Place, base: str) -> Iterator[Reach]:
        module = at.file.project.module(tuple(base.split(".")), at.file.path) if base else None
        for found in [module] if module in self.files else self._candidates(base):
            assert found is not None
            others = [self._words_of(file) for file in self.files if file is not found]
            yield Reach(at, found, found.index.module, frozenset().union(*others))

    def _candidates(self, dotted: str) -> list[File]:
        last = dotted.rpartition(".")[2]
        named = [file for file in self.files if module_parts(file.path)[-1:] == (last,)]
        return list(self.files) if dotted == "__main__" else named

    def _words_of(self, file: File) -> frozenset[str]:
        if file.path not in self._words:
            self._words[file.path] = frozenset(_WORD.findall(file.source.text))
        return self._words[file.path]


def _scope_of(at: Place) -> Scope | None:
    index = at.file.index
    if at.node in index.scope_of:
        return index.scope_of[at.node]
    name = next((n for n in ast.walk(at.node) if isinstance(n, ast.Name)), None)
    return index.scope_of[name] if name is not None else index.module


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in _ABOUT_MODULES


def _beginning(node: ast.expr) -> str:
    """The text with which an expression is certain to begin."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.left
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _read_of_dict(file: File, node: ast.AST) -> frozenset[str] | None:
    """The name that is read of a namespace, where it is written out: `globals()["state"]`."""
    parent = file.index.parents.get(node)
    if not isinstance(parent, ast.Subscript) or parent.value is not node:
        return None
    key = parent.slice
    is_text = isinstance(key, ast.Constant) and isinstance(key.value, str)
    return frozenset({key.value}) if is_text else None  # type: ignore[attr-defined]


def _read_of_module(file: File, node: ast.AST) -> frozenset[str] | None:
    """The name that is read of a module: `import_module("steps").state`, `getattr(steps, "x")`."""
    parent = file.index.parents.get(node)
    if isinstance(parent, ast.Attribute):
        is_name = not _is_special(parent.attr) and parent.attr not in _DICT_METHODS
        return frozenset({parent.attr}) if is_name else None
    if isinstance(parent, ast.Call) and file.called(parent) == "builtins.getattr":
        name = parent.args[1] if len(parent.args) > 1 and parent.args[0] is node else None
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return frozenset({name.value})
    return None
