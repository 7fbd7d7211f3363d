"""Sites that are left alone because of what is around them, each with the reason.

A test of pmap itself, a notebook that explains it, a copy of another project, and one branch of
two whose other branch has the same function under `jax.jit` or `jax.vmap`.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import PurePath

from shardlift.rewrite.home import is_test
from shardlift.source.file import File
from shardlift.source.mentions import Mention, Use

_ABOUT_PMAP = re.compile(r"(?i)pmap")
# Folders for code of others, and projects that map functions and are often copied.
_OF_OTHERS = frozenset({"third_party", "thirdparty", "vendor", "vendored", "_vendor", "external"})
_COPIED = frozenset({"kfac_jax", "brax", "mctx", "t5x", "clu", "scenic", "rlax", "folx"})
_TRANSFORMS = frozenset({"jax.jit", "jax.vmap"})
_NAMED = (ast.FunctionDef, ast.ClassDef)
_BRANCHES = (ast.If, ast.IfExp)


def why_left_alone(file: File, mention: Mention) -> str | None:
    """Why a site is not rewritten, whatever it maps; None if it may be."""
    if (project := _copied_project(file)) is not None:
        return f"it is in a copy of {project}: change it there, and copy it again"
    if _explains_pmap(file, mention):
        return "this part of the notebook is about pmap: its text has to change along"
    if _tests_pmap(file, mention):
        return "this test is about pmap, and the code that it tests maps nothing itself"
    if (other := _other_branch(file, mention)) is not None:
        name = file.called(other)
        where = f"line {file.span(other).line}"
        return f"the other branch, {where}, has {name} of the same function: choose one by hand"
    return None


def _copied_project(file: File) -> str | None:
    """The project that a file is copied from: by its folder, if most files are outside of that."""
    parts = PurePath(os.path.abspath(file.path)).parts
    for k, part in enumerate(parts[:-1]):
        if part in _OF_OTHERS and k + 2 < len(parts):
            return parts[k + 1]
        if part in _COPIED and _is_small_part(file, os.path.join(*parts[: k + 1])):
            return part
    return None


def _is_small_part(file: File, folder: str) -> bool:
    """Whether a package has less than half of the files of a project."""
    memo = file.project.memo
    if _is_small_part not in memo:
        memo[_is_small_part] = [os.path.abspath(p) for p in file.project.paths if p.endswith(".py")]
    paths: list[str] = memo[_is_small_part]
    inside = [path for path in paths if path.startswith(f"{folder}{os.sep}")]
    return os.path.join(folder, "__init__.py") in inside and 2 * len(inside) < len(paths)


def _explains_pmap(file: File, mention: Mention) -> bool:
    """Whether a notebook is about pmap, by its name or by the heading and the text above a cell."""
    cells = file.source.cells
    if cells is None:
        return False
    heading = cells.heading(mention.node.lineno)
    return any(map(_ABOUT_PMAP.search, (PurePath(file.path).stem, heading)))


def _tests_pmap(file: File, mention: Mention) -> bool:
    """Whether a test says that it is about pmap, while no code that it imports uses pmap."""
    if not is_test(file.path):
        return False
    around = (n for n in file.index.ancestors(mention.node) if isinstance(n, _NAMED))
    said = [text for node in around for text in (node.name, ast.get_docstring(node) or "")]
    if not any(map(_ABOUT_PMAP.search, said)):
        return False
    tested = file.project.graph.targets(file.path)
    mapping = file.project.files_with("pmap", among=tested)
    return bool(tested) and not any(other.mentions for other in mapping)


def _other_branch(file: File, mention: Mention) -> ast.Call | None:
    """The jit or vmap of the same function in the other branch of a condition."""
    call = mention.node
    if mention.use is not Use.CALL or not isinstance(call, ast.Call) or not call.args:
        return None
    operand = ast.unparse(call.args[0])
    child: ast.AST = call
    for around in file.index.ancestors(call):
        if isinstance(around, _BRANCHES):
            for other in _calls(_others(around, child)):
                same = {ast.unparse(node) for node in (other, *other.args[:1])}
                is_same = operand in same
                if is_same and file.called(other) in _TRANSFORMS:
                    return other
        if isinstance(around, (ast.FunctionDef, ast.Lambda)):
            return None
        child = around
    return None


def _others(condition: ast.If | ast.IfExp, child: ast.AST) -> list[ast.AST]:
    """The branch of a condition that a node is not in."""
    if isinstance(condition, ast.IfExp):
        branches = {condition.body: condition.orelse, condition.orelse: condition.body}
        return [branches[child]] if child in branches else []
    if child in condition.body:
        return [*condition.orelse]
    return [*condition.body] if child in condition.orelse else []


def _calls(nodes: list[ast.AST]) -> Iterator[ast.Call]:
    return (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Call))
