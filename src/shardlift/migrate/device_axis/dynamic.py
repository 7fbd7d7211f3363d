"""Names that a program reaches without writing them: `globals()`, `eval`, `importlib`, `import *`.

Such a reader cannot be followed. What it can reach keeps its device axis: the names of a scope, or
those of a module. Where the text says which name is read (`globals()["state"]`), only that one.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from shardlift.migrate.device_axis.cells import Place
from shardlift.migrate.device_axis.failures import NotFollowedError
from shardlift.source.file import File
from shardlift.source.modules import LIBRARIES, module_parts
from shardlift.source.scopes import FUNCTIONS, Scope
from shardlift.source.values import External

# They see the variables of whoever calls them, and of those around.
_FRAMES = frozenset(
    {
        "sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile", "gc.get_objects",
        "gc.get_referrers", "inspect.currentframe", "inspect.stack", "inspect.trace",
        "inspect.getouterframes", "inspect.getinnerframes", "IPython.embed",
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
_IMPORTS = frozenset({"importlib.import_module", "builtins.__import__", "importlib.__import__"})
# They are told a module, or a name in it, by text.
_LOADERS = frozenset(
    {
        "importlib.import_module", "builtins.__import__", "importlib.__import__", "sys.modules",
        "importlib.util.find_spec", "importlib.util.spec_from_file_location", "imp.load_source",
        "importlib.util.module_from_spec", "importlib.machinery.SourceFileLoader",
        "runpy.run_module", "runpy.run_path", "pkgutil.resolve_name", "pkgutil.get_loader",
        "imp.load_module", "pydoc.locate", "inspect.getmodule", "unittest.mock.patch", "mock.patch",
        "hydra.utils.get_method", "hydra.utils.get_object", "hydra.utils.get_class",
        "hydra.utils.instantiate", "hydra.utils.call",
    }
)  # fmt: skip
_NAMESPACES = frozenset({"builtins.globals", "builtins.locals", "builtins.vars"})
_DICT_METHODS = frozenset({"get", "items", "values", "keys", "update", "pop", "copy", "setdefault"})
_ABOUT_MODULES = frozenset(
    {
        "__name__", "__file__", "__doc__", "__all__", "__path__", "__package__", "__spec__",
        "__version__", "__author__", "__license__", "__copyright__",
    }
)  # fmt: skip
_Name = ast.Name | ast.Attribute
_Names = frozenset[str] | None
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Reach:
    """A place from which names of a scope can be read or set; all of them if `names` is None."""

    at: Place
    file: File
    scope: Scope
    names: _Names = None


def find_reaches(files: Sequence[File], lost: Container[File] = ()) -> Iterator[Reach]:
    """Every dynamic access in the files of a program; of one that is lost, perhaps any name."""
    finder = _Finder(files)
    for file in files:
        try:
            found = list(_reaches_in(file, finder))
        except Exception as error:
            if file not in lost:
                raise NotFollowedError(file, error) from error
            found = finder.any_word(file)
        yield from found


def _reaches_in(file: File, finder: _Finder) -> Iterator[Reach]:
    for alias in file.index.nodes(ast.alias):
        yield from finder.imported(file, alias)
    names: list[_Name] = [*file.index.nodes(ast.Name), *file.index.nodes(ast.Attribute)]
    for node in names:
        if isinstance(node.ctx, ast.Load):
            yield from finder.named(file, node)
    for call in file.index.nodes(ast.Call):
        yield from finder.patched(file, call)


class _Finder:
    """The files of a program, and the words in them."""

    def __init__(self, files: Sequence[File]) -> None:
        """Words are looked up when they are asked for."""
        self.files = files
        self._parts = {file: module_parts(file.path) for file in files}
        self._words: dict[str, frozenset[str]] = {}
        self._by_name: dict[str, list[File]] = defaultdict(list)
        for file, parts in self._parts.items():
            self._by_name[parts[-1] if parts else ""].append(file)

    def any_word(self, file: File) -> list[Reach]:
        """The names of all modules that a file has a word for."""
        at, words = Place(file, file.index.root.body[0]), self._words_of(file)
        return [Reach(at, one, one.index.module, words) for one in self.files if one is not file]

    def named(self, file: File, node: _Name) -> Iterator[Reach]:
        """What a name or attribute gives access to."""
        at, parent = Place(file, node), file.index.parents.get(node)
        values = file.values(node)
        paths = {value.path for value in values if isinstance(value, External)}
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        is_value = not isinstance(parent, ast.Attribute)
        if "sys.modules" in paths and _is_asked(node, parent):
            return
        if (
            getattr(node, "attr", getattr(node, "id", "")) in _FRAME_ATTRIBUTES
            or paths & _FRAMES
            or ("builtins" in paths and is_value)
        ):
            yield from self._everything(at)
        elif paths & _EVALUATORS:
            yield from self._evaluated(at, call)
        elif paths & _NAMESPACES:
            yield from self._namespace(at, "builtins.globals" in paths, call)
        elif paths & _LOADERS:
            yield from self._loaded(at, call)
        elif "fire.Fire" in paths and call and not call.args:  # the names of its caller's module
            yield Reach(at, file, file.index.module)
        elif is_value or _is_special(parent.attr) or len(values) > 1:  # type: ignore[union-attr]
            modules = [self._module(file, path) for path in sorted(paths)]
            inside = [other for module in modules if module for other in self._below(module)]
            yield from self._modules(at, inside, _read_of_module(file, node))

    def patched(self, file: File, call: ast.Call) -> Iterator[Reach]:
        """`mocker.patch("steps.state")`, `monkeypatch.setattr("steps.state", …)`."""
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        target = call.args[0] if method in ("patch", "setattr") and call.args else None
        if target is not None and _text(target) is not None:
            yield from self._modules(Place(file, call), self._by_text(file, target))

    def _evaluated(self, at: Place, call: ast.Call | None) -> Iterator[Reach]:
        """Text that is run sees the names around it, unless it is given others.

        It may be another file of the program: then a name is read of what it leaves behind, as in
        `exec(text, names); names["state"]`.
        """
        if call is None:
            yield from self._everything(at)
            return
        words = _literal_words(at.file)
        if len(call.args) == 1 and not call.keywords:
            yield Reach(at, at.file, at.file.index.module)
            yield from self._around(at)
            words = self._words_of(at.file)
        text = at.file.definition(call.args[0]) if call.args else call
        parts = [_text(node) or "" for node in ast.walk(text) if isinstance(node, ast.Constant)]
        is_import = "import" in " ".join(parts) and not isinstance(text, ast.Constant)
        names = None if is_import else words
        yield from (Reach(at, file, file.index.module, names) for file in self.files)

    def _namespace(self, at: Place, of_module: bool, call: ast.Call | None) -> Iterator[Reach]:
        """`globals()`, `locals()`, `vars()`; called by another name, that is of whoever calls."""
        if call is None:
            yield from self._everything(at)
        elif of_module:
            yield Reach(at, at.file, at.file.index.module, _read_of_dict(at.file, call))
        elif not call.args:
            yield from self._around(at, _read_of_dict(at.file, call))

    def _around(self, at: Place, names: _Names = None) -> Iterator[Reach]:
        """The scope that a place is in, and the functions around it."""
        inside = (node for node in ast.walk(at.node) if node in at.file.index.scope_of)
        scope: Scope | None = at.file.index.scope_of[next(inside)]
        while scope is not None:
            yield Reach(at, at.file, scope, names)
            is_inside = isinstance(scope.node, FUNCTIONS) or scope.is_comprehension
            outer = scope.parent if is_inside else None
            scope = outer if outer is not at.file.index.module else None

    def _everything(self, at: Place) -> Iterator[Reach]:
        for file in self.files:
            yield from (Reach(at, file, scope) for scope in file.index.opens.values())

    def _modules(self, at: Place, files: Iterable[File], names: _Names = None) -> Iterator[Reach]:
        """Modules; whole, if a name that is read is that of the module itself."""
        for file in files:
            is_module = names is not None and names & set(self._parts[file])
            yield Reach(at, file, file.index.module, None if is_module else names)

    def _loaded(self, at: Place, call: ast.Call | None) -> Iterator[Reach]:
        """The modules that a loader may be asked for."""
        parent = at.file.index.parents.get(at.node)
        is_import = call is not None and at.file.called(call) in _IMPORTS
        if is_import and isinstance(at.file.index.parents.get(call), ast.Expr):  # type: ignore[arg-type]
            return  # no name of it is read
        if isinstance(parent, ast.Subscript):  # sys.modules[…]
            names = _read_of_module(at.file, parent)
            yield from self._modules(at, self._by_text(at.file, parent.slice), names)
        elif call is not None and call.args:
            names = _read_of_module(at.file, call) or _read_of_dict(at.file, call)
            yield from self._modules(at, self._by_text(at.file, call.args[0]), names)
        else:
            yield from self._modules(at, self.files)

    def _by_text(self, file: File, node: ast.expr) -> Sequence[File]:
        """The files that a text may name: all if it is computed from its beginning on."""
        node = file.definition(node)
        if isinstance(node, ast.Name) and node.id == "__name__":
            return [file]
        text = _beginning(node)
        words = _WORD.findall(text if isinstance(node, ast.Constant) else text.rpartition(".")[0])
        if not words or "__main__" in words:
            return self.files
        folder = words[-1]  # a package: the modules in it can be had from it
        is_exact = isinstance(node, ast.Constant)
        return [
            one
            for one, parts in self._parts.items()
            if folder in parts or (is_exact and {*parts[-1:]} & {*words})
        ]

    def _module(self, file: File, path: str) -> File | None:
        module = file.project.module(tuple(path.split(".")), file.path)
        return module if module in self._parts else None

    def _below(self, module: File) -> list[File]:
        """A module, and those in it if it is a package."""
        package = self._parts[module]
        inside = [one for one, parts in self._parts.items() if parts[: len(package)] == package]
        return inside if module.path.endswith("__init__.py") else [module]

    # ---- imports that give no name to what they bind, or whose module is not certain

    def imported(self, file: File, alias: ast.alias) -> Iterator[Reach]:
        """`from steps import *`, and imports of a module that is not found, or found twice."""
        statement = file.index.parents[alias]
        base = ""
        if isinstance(statement, ast.ImportFrom):
            base = file.resolver.imported_module(statement)
        if alias.name == "*":
            module = self._module(file, base)
            for starred in [module] if module is not None else self._with_name(base):
                others = [self._words_of(other) for other in self.files if other is not starred]
                names = frozenset[str]().union(*others)
                yield Reach(Place(file, statement), starred, starred.index.module, names)
            return
        for dotted in (base, f"{base}.{alias.name}".strip(".")):
            is_library = not dotted or dotted.partition(".")[0] in LIBRARIES
            if not is_library and not file.project.has_module(tuple(dotted.split(".")), file.path):
                at, found = Place(file, alias), self._with_name(dotted)
                yield from (Reach(at, f, f.index.module, self._words_of(file)) for f in found)

    def _with_name(self, dotted: str) -> Sequence[File]:
        named = self._by_name.get(dotted.rpartition(".")[2], [])
        return self.files if dotted == "__main__" else named

    def _words_of(self, file: File) -> frozenset[str]:
        if file.path not in self._words:
            self._words[file.path] = frozenset(_WORD.findall(file.source.text))
        return self._words[file.path]


def _is_asked(node: ast.expr, parent: ast.AST | None) -> bool:
    """`"ipykernel" in sys.modules`, which gives access to nothing."""
    is_test = isinstance(parent, ast.Compare) and node in parent.comparators
    return is_test and all(isinstance(op, (ast.In, ast.NotIn)) for op in parent.ops)  # type: ignore[union-attr]


def _literal_words(file: File) -> frozenset[str]:
    """The words in strings, and the attributes that are read."""
    texts = (_text(node) for node in file.index.nodes(ast.Constant))
    words = (word for text in texts if text is not None for word in _WORD.findall(text))
    return frozenset((*words, *(node.attr for node in file.index.nodes(ast.Attribute))))


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in _ABOUT_MODULES


def _beginning(node: ast.expr) -> str:
    """The text with which an expression is certain to begin."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.left
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return _text(node) or ""


def _text(node: ast.expr | None) -> str | None:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text else None  # type: ignore[union-attr]


def _read_of_dict(file: File, node: ast.AST) -> _Names:
    """The name that is read of a namespace, where it is written out: `globals()["state"]`."""
    parent = file.index.parents.get(node)
    key = _text(parent.slice) if isinstance(parent, ast.Subscript) else None
    return frozenset({key}) if key is not None else None


def _read_of_module(file: File, node: ast.AST) -> _Names:
    """The name that is read of a module: `import_module("steps").state`, `getattr(steps, "x")`."""
    parent = file.index.parents.get(node)
    name: str | None = None
    if isinstance(parent, ast.Attribute):
        name = parent.attr
    elif isinstance(parent, ast.Call) and file.called(parent) == "builtins.getattr":
        name = _text(parent.args[1]) if parent.args[1:] and parent.args[0] is node else None
    is_name = name is not None and not _is_special(name) and name not in _DICT_METHODS
    return frozenset({name}) if is_name else None  # type: ignore[arg-type]
