"""Where the helpers of a project live: one module that its files can import, or the file itself."""

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import product
from pathlib import PurePath

from shardlift.rewrite.layout import Exists, Layout, Package
from shardlift.source.project import is_test
from shardlift.source.scopes import grouped

MODULE = "_spmd"
_FILE = f"{MODULE}.py"
# Modules in which projects keep such functions, those that say so before those for everything.
_KEEPING = (
    re.compile(r"(jax|dist|distributed|parallel|sharding|devices?|pmap|multihost)(_utils?)?"),
    re.compile(r"utils?"),
)


@dataclass(frozen=True)
class Home:
    """The module that holds the helpers of some files; no path: each file holds its own."""

    path: str | None
    module: str = ""  # how it is imported
    own: frozenset[str] = frozenset()  # top names that the file imports from the project


def beside(path: str) -> Home:
    """A module in the folder of a script, from which python imports when it runs the script."""
    return Home(os.path.join(os.path.dirname(path), _FILE), MODULE, frozenset({MODULE}))


def no_home(path: str, layout: Layout, exists: Exists) -> Home:
    """For a file that holds its own helpers, or needs none."""
    beside = _beside(path, os.path.dirname(os.path.abspath(path)), layout, exists)
    own = layout.package_of(path).name.partition(".")[0]
    return Home(None, own=beside | {own} if own else beside)


def is_example(path: str) -> bool:
    """Whether a file is an example, by its folder."""
    return bool({"example", "examples"} & set(PurePath(path).parts))


def find_homes(helpers: Mapping[str, Set[str]], layout: Layout, exists: Exists) -> dict[str, Home]:
    """The home of the helpers of each of these files, which all need some, given by their names.

    Files of one package share the module for such things that has some already or that all of them
    import, or a new one at its top, and so do the scripts of one folder. Files that import from a
    package whose own code needs helpers share those. What only tests need is in their folder. Any
    other notebook, a script without modules beside it and a single test have no home.
    """
    homes = {path: no_home(path, layout, exists) for path in helpers}
    notebooks = {path for path in helpers if path.endswith(".ipynb")}
    groups = _groups([path for path in helpers if path not in notebooks], layout)
    for package, files in groups.items():
        place = _place(package, files, layout, exists)
        if place is not None:
            names = frozenset[str]().union(*(helpers[path] for path in files))
            kept = _keeping_module(place, files, names, layout)
            new = _FILE if names - {"Adam"} else "_optimizers.py"
            module = kept or os.path.join(place.folder, new)
            able = (path for path in notebooks if helpers[path] <= names)
            users = [
                p for p in able if _imported(layout.package_of(p), [p], groups, layout) == package
            ]
            for path in (*files, *users):
                homes[path] = _home(path, place, module, files, layout, exists)
    return homes


def with_another(
    helpers: Mapping[str, Set[str]], layout: Layout, exists: Exists
) -> dict[str, Home]:
    """The files that import another one of these, which holds the same helpers for both."""
    imported = {path: layout.modules_imported(path) for path in helpers}
    held = {p: [o for o in imported[p] if helpers[p] <= helpers.get(o, set())] for p in helpers}
    return {
        path: Home(other, imported[path][other], no_home(path, layout, exists).own)
        for path, others in held.items()
        for other in others
        if not held[other]
    }


def _groups(paths: Sequence[str], layout: Layout) -> dict[Package, list[str]]:
    """The files that share a home, by the package that it is in."""
    members = grouped(paths, layout.package_of)
    shared = {one: files for one, files in members.items() if not all(map(is_test, files))}
    next_of = {one: _imported(one, files, shared, layout) for one, files in members.items()}
    groups: dict[Package, list[str]] = defaultdict(list)
    for package, files in members.items():
        groups[_last(package, next_of, members)] += files
    return groups


def _imported(
    package: Package, files: Sequence[str], shared: Mapping[Package, list[str]], layout: Layout
) -> Package | None:
    """The package that some files import from and whose helpers they can use, too."""
    used = {one for path in files for one, _ in layout.packages_imported(path)}
    named = [one for one in used & shared.keys() if one.name and one != package]
    return max(named, key=lambda one: (len(shared[one]), one.folder), default=None)


def _last(
    package: Package,
    next_of: Mapping[Package, Package | None],
    members: Mapping[Package, list[str]],
) -> Package:
    """What a chain of imports between packages leads to; of a circle, the one with most files."""
    seen = [package]
    while (following := next_of.get(seen[-1])) is not None and following not in seen:
        seen.append(following)
    if following is None:
        return seen[-1]
    circle = seen[seen.index(following) :]
    return max(circle, key=lambda one: (len(members[one]), one.folder))


def _place(
    package: Package, files: Sequence[str], layout: Layout, exists: Exists
) -> Package | None:
    """The folder of a package in which a home is made; None: in the file."""
    if exists(os.path.join(package.folder, _FILE)):
        return package
    only_tests = all(map(is_test, files))
    is_known = bool(package.name) or layout.has_modules(package)
    if len(files) == 1 and (only_tests or not is_known):
        return None
    if not is_known and not any(layout.is_program(path) or is_test(path) for path in files):
        used = {other for path in files for other, _ in layout.packages_imported(path)}
        if any(x.name and os.path.dirname(x.folder) != package.folder for x in used):
            return None  # they run from the folder of that package, and find what is there
    if not only_tests:
        return package
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in files])
    inner = PurePath(folder).relative_to(package.folder).parts if package.contains(folder) else ()
    if not inner or not package.name or not all(part.isidentifier() for part in inner):
        return package
    return Package(folder, ".".join((package.name, *inner)))


def _keeping_module(
    place: Package, files: Sequence[str], names: Set[str], layout: Layout
) -> str | None:
    """The one module of the package for such things, which has one or which all files import."""
    if layout.has(os.path.join(place.folder, _FILE)):
        return None
    imported = [{path, *layout.modules_imported(path)} for path in files]
    shared = sorted(set.intersection(*imported)) if len(files) > 1 else []
    for modules, kind in product((layout.with_helpers(names), shared), _KEEPING):
        named = [
            module
            for module in modules
            if kind.fullmatch(PurePath(module).stem)
            and place.contains(os.path.dirname(os.path.abspath(module)))
            and not any(layout.is_imported(path, module) for path in files if path != module)
        ]
        if named:
            taken = layout.names_of(named[0]) - layout.helpers_in(named[0])
            fits = len(named) == 1 and taken.isdisjoint(names) and not layout.is_program(named[0])
            return named[0] if fits else None
    return None


def _home(
    path: str, place: Package, file: str, files: Sequence[str], layout: Layout, exists: Exists
) -> Home:
    file = file if os.path.isabs(path) else os.path.relpath(file)
    if file == path:
        return no_home(path, layout, exists)
    if (spelled := layout.modules_imported(path).get(file)) is not None:
        return Home(file, spelled, no_home(path, layout, exists).own)
    folder, below = os.path.dirname(os.path.abspath(path)), os.path.relpath(file, place.folder)
    module = ".".join(PurePath(below).with_suffix("").parts)
    if place.contains(folder) and _is_relative(path, place, files, layout):
        return Home(file, f"{'.' * (_depth(path, place) + 1)}{module}", frozenset({place.name}))
    if not place.name:
        own = _beside(path, place.folder, layout, exists)
        roots = (os.path.join(place.folder, name) for name in (".git", "pyproject.toml"))
        if own or os.path.basename(place.folder) == "src" or any(map(exists, roots)):
            return Home(file, module, own | {module.partition(".")[0]})
        # isort takes a module in any other folder for another project's.
        named = (one.name.partition(".")[0] for one, _ in layout.packages_imported(path))
        return Home(file, module, frozenset(filter(None, named)))
    return Home(file, f"{place.name}.{module}", frozenset({place.name.partition(".")[0]}))


def _depth(path: str, place: Package) -> int:
    """How many folders below a package a file of it is."""
    folder = os.path.dirname(os.path.abspath(path))
    return len(PurePath(folder).relative_to(place.folder).parts)


def _beside(path: str, folder: str, layout: Layout, exists: Exists) -> frozenset[str]:
    """The modules and packages of a folder that a file imports."""
    tops = {parts[0] for parts in layout.absolute_imports(path)}
    places = {top: os.path.join(folder, top) for top in tops}
    return frozenset(t for t, at in places.items() if exists(f"{at}.py") or exists(at))


def _is_relative(path: str, place: Package, files: Sequence[str], layout: Layout) -> bool:
    """Whether a file imports its package relatively, or would, as the others do."""
    relative, absolute = _styles(path, place, layout)
    if absolute:
        # Files that import their neighbours relatively may name the package for all others.
        return relative > absolute and layout.level(path) > _depth(path, place)
    if layout.level(path) > _depth(path, place):
        return True
    if not place.name:  # it is no package: `..` would go beyond the topmost one
        return False
    if relative:
        return True
    styles = [_styles(other, place, layout) for other in files]
    relative, absolute = (sum(counts) for counts in zip(*styles, strict=True))
    return 0 < relative >= absolute


def _styles(path: str, place: Package, layout: Layout) -> tuple[int, int]:
    """How many relative imports a file has, and how many that name the package."""
    top = place.name.partition(".")[0]
    named = [parts for parts in layout.absolute_imports(path) if parts[0] == top]
    return layout.relative_imports(path), len({parts[:-1] for parts in named})
