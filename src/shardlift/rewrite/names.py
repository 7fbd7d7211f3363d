"""Names of a file that a rewrite writes: the file's own name for jax, and what is shadowed."""

import ast
from collections.abc import Iterable, Iterator

from shardlift.check.renames import known_as
from shardlift.rewrite.helpers import catalogue, is_written, written_names
from shardlift.rewrite.home import MODULE
from shardlift.source.file import File
from shardlift.source.scopes import FUNCTIONS, Scope, bound_name
from shardlift.source.values import External, Known

JAX = "import jax"
_FLAX_UTILS = "flax.jax_utils"
# Names of `jax.sharding`, and where `import jax` finds them.
_SHARDING = {"PartitionSpec": "P", "NamedSharding": "NamedSharding", "Mesh": "sharding.Mesh"}


def jax_name(file: File) -> tuple[str, frozenset[str]]:
    """What the module `jax` is called in a file, and the import that is needed for it."""
    for name, bound in file.index.module.names.items():
        if len(bound) == 1 or name == "jax":
            for node in bound:
                if isinstance(node, ast.alias) and _is_jax(file, node):
                    return name, frozenset()
    return "jax", frozenset({JAX})


def partial_name(file: File) -> tuple[str, frozenset[str]]:
    """What `functools.partial` is called in a file, and the import that is needed for it."""
    for alias in file.index.only_imports:
        statement = file.index.parents[alias]
        if isinstance(statement, ast.Import) and alias.name == "functools":
            return f"{bound_name(alias)}.partial", frozenset()
        of_it = isinstance(statement, ast.ImportFrom) and statement.module == "functools"
        if of_it and alias.name == "partial":
            return bound_name(alias), frozenset()
    return "functools.partial", frozenset({"import functools"})


def sharding_name(file: File, name: str) -> str:
    """What `jax.sharding.PartitionSpec` is called in a file: as it is imported, or `jax.P`."""
    paths = [(External(f"jax.sharding.{name}"),), (External(f"jax.{_SHARDING[name]}"),)]
    first = min((mention.node.lineno for mention in file.mentions), default=0)
    for alias in file.index.only_imports:
        is_above = file.index.parents[alias] in file.index.root.body and alias.lineno < first
        if is_above and alias.name in (name, "P") and file.resolver.bound(alias) in paths:
            scopes = [s for s in file.index.opens.values() if bound_name(alias) in s.names]
            if scopes == [file.index.module]:
                return bound_name(alias)
    return f"{jax_name(file)[0]}.{_SHARDING[name]}"


def flax_utils(file: File, node: ast.AST) -> tuple[str, frozenset[str]] | None:
    """What `flax.jax_utils` is called where a node stands, and the import that is needed for it.

    None if importing the file does not import flax.
    """
    if (utils := known_as(file, node, _FLAX_UTILS)) is not None:
        return utils, frozenset()
    if (flax := known_as(file, node, "flax")) is not None:
        return f"{flax}.jax_utils", frozenset()
    if not _loads_flax(file):
        return None
    is_new = is_free(file, node, "jax_utils", _FLAX_UTILS)
    return ("jax_utils", frozenset({"from flax import jax_utils"})) if is_new else None


def _loads_flax(file: File) -> bool:
    """Whether a file imports flax, or a module of the project beside it does, before or after."""
    graph = file.project.graph
    importers = graph.importers(file.path)

    def imports_flax(path: str) -> bool:
        return any(imported.parts[:1] == ("flax",) for imported in graph.imported(path))

    if any(map(imports_flax, (file.path, *graph.targets(file.path)))):
        return True
    return bool(importers) and all(map(imports_flax, importers))


def first_free(
    file: File, candidates: Iterable[str], taken: set[str], places: Iterable[ast.AST] = ()
) -> str:
    """The first name that means nothing in some functions; without any, in all of a file."""
    functions = list(places) or [file.index.root]
    around = [node for function in functions for node in file.index.ancestors(function)]
    bound = {name for node in around for name in getattr(file.index.opens.get(node), "names", ())}
    for node in (inner for function in functions for inner in ast.walk(function)):
        bound |= {getattr(node, field, None) or "" for field in ("id", "arg", "name", "asname")}
    return next(n for n in candidates if n.isidentifier() and n not in bound | taken)


def is_shadowed(file: File, node: ast.AST, name: str) -> bool:
    """Whether a name that a module imports means something else where a node stands."""
    if name in catalogue():
        return not is_free(file, node, name)
    bound = [binding for scope in _scopes(file, node) for binding in scope.names.get(name, [])]
    return any(not isinstance(binding, ast.alias) for binding in bound)


def is_free(file: File, node: ast.AST, name: str, path: str = "") -> bool:
    """Whether `name` can mean a function of a helper module where a node stands.

    Nothing else may bind it there; an import of `path`, which it replaces, may.
    """
    for scope in _scopes(file, node):
        for bound in scope.names.get(name, ()):
            replaced = isinstance(bound, ast.alias) and file.resolver.bound(bound) == (
                External(path),
            )
            if not replaced and not _is_emitted(file, bound, name):
                return False
    return True


def _is_emitted(file: File, bound: ast.AST, name: str) -> bool:
    """Whether an earlier migration put the helper of this name there."""
    if isinstance(bound, ast.alias):
        statement = file.index.parents[bound]
        module = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
        if bound.name != name or module.rpartition(".")[2] == MODULE:
            return bound.name == name
        values = file.resolver.bound(bound)
        return bool(values) and all(
            isinstance(value, Known) and name in written_names(value.file.source.text)
            for value in values
        )
    return isinstance(bound, ast.stmt) and is_written(bound, file.source.text)


def _scopes(file: File, node: ast.AST) -> Iterator[Scope]:
    """The scopes whose names a node sees. Names of a class are seen only in its body."""
    inside, child = False, node
    for around in file.index.ancestors(node):
        scope = file.index.opens.get(around)
        if scope is not None and not (inside and isinstance(around, ast.ClassDef)):
            yield scope
        body = around.body if isinstance(around, FUNCTIONS) else []
        inside = inside or child is body or (isinstance(body, list) and child in body)
        child = around


def _is_jax(file: File, alias: ast.alias) -> bool:
    statement = file.index.parents[alias]
    if not isinstance(statement, ast.Import):
        return False
    return alias.name == "jax" or (not alias.asname and alias.name.startswith("jax."))
