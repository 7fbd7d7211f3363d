"""Where a file's helpers live: one module in its package, or the file itself if it has none."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath

MODULE = "_spmd"
_TESTS = re.compile(r"test_|.*_test$|conftest$")
Exists = Callable[[str], bool]


@dataclass(frozen=True)
class Home:
    """The module that holds the helpers of some files; no path: each file holds its own."""

    path: str | None
    module: str = ""  # how it is imported
    package: str = ""  # the top name of the file's own package


def find_home(path: str, tree: ast.Module, exists: Exists) -> Home:
    """The home of a file's helpers.

    A file in a package has it at the top of that package. A file in a folder without
    `__init__.py` has it at the top of the tree that its own imports name, or beside it if it
    imports its neighbours. A script on its own has none.
    """
    if path.endswith(".ipynb"):
        return Home(None)
    folder = PurePath(os.path.abspath(path)).parent
    if folder.name.isidentifier() and exists(str(folder / "__init__.py")):
        home = _in_package(folder, tree, exists)
    else:
        home = _by_imports(path, folder, tree, exists)
    if home.path is None or os.path.isabs(path):
        return home
    return replace(home, path=os.path.relpath(home.path))


def beside(path: str) -> Home:
    """A module in the folder of a script, from which python imports when it runs the script."""
    return Home(os.path.join(os.path.dirname(path), f"{MODULE}.py"), MODULE, MODULE)


def relative(path: str, home: Home) -> Home | None:
    """The same home by a relative import, for a file in its package; None for any other."""
    if home.path is None:
        return None
    top, folder = (os.path.dirname(os.path.abspath(one)) for one in (home.path, path))
    if os.path.commonpath([top, folder]) != top:
        return None
    depth = 0 if folder == top else len(os.path.relpath(folder, top).split(os.sep))
    return replace(home, module="." * (depth + 1) + MODULE)


def imports_own_package(text: str, home: Home) -> bool:
    """Whether a file names the package that it is in when it imports."""
    return any(parts[0] == home.package for parts in _imported(ast.parse(text)))


def _in_package(folder: PurePath, tree: ast.Module, exists: Exists) -> Home:
    top = folder
    while top.parent.name.isidentifier() and exists(str(top.parent / "__init__.py")):
        top = top.parent
    home = str(top / f"{MODULE}.py")
    if _uses_relative_imports(tree):
        depth = len(folder.relative_to(top).parts)
        return Home(home, "." * (depth + 1) + MODULE, top.name)
    return Home(home, f"{top.name}.{MODULE}", top.name)


def _by_imports(path: str, folder: PurePath, tree: ast.Module, exists: Exists) -> Home:
    imported = _imported(tree)
    tops = sorted({parts[0] for parts in imported})
    if any(exists(str(folder / f"{top}.py")) for top in tops):
        return Home(str(folder / f"{MODULE}.py"), MODULE, MODULE)
    for above in reversed((folder, *folder.parents)):
        if any(_leads_into(parts, above, exists) for parts in imported):
            return _beside(above)
    for top in tops:  # a script beside the package that it is for
        if any(_leads_into(parts, folder / top, exists) for parts in imported):
            return _beside(folder / top)
    return _of_tested_package(path, folder, tops, exists)


def _leads_into(parts: tuple[str, ...], folder: PurePath, exists: Exists) -> bool:
    """Whether an import of a dotted name finds a module of this folder."""
    if len(parts) < 2 or parts[0] != folder.name:
        return False
    return exists(str(folder / f"{parts[1]}.py")) or exists(str(folder / parts[1]))


def is_test(path: str) -> bool:
    """Whether a file is a test, by its name or its folder."""
    pure = PurePath(path)
    return bool(_TESTS.match(pure.stem) or {"test", "tests"} & set(pure.parts))


def _of_tested_package(path: str, folder: PurePath, tops: list[str], exists: Exists) -> Home:
    """Tests share the helpers of the package that they test."""
    if not is_test(path):
        return Home(None)
    for above in folder.parents:
        for top in tops:
            for package in (above / top, above / "src" / top):
                if exists(str(package / "__init__.py")):
                    return _beside(package)
    return Home(None)


def _beside(package: PurePath) -> Home:
    return Home(str(package / f"{MODULE}.py"), f"{package.name}.{MODULE}", package.name)


def _uses_relative_imports(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))


def _imported(tree: ast.Module) -> set[tuple[str, ...]]:
    """The dotted names that a file imports, each with what is taken from it."""
    found: set[tuple[str, ...]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {(*node.module.split("."), alias.name) for alias in node.names}
    return found
