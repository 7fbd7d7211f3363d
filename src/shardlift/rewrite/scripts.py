"""What runs when: which files are scripts, what runs once, and where devices may be touched."""

from __future__ import annotations

import ast
import re

from shardlift.source.file import File
from shardlift.source.mentions import is_decorator
from shardlift.source.scopes import COMPREHENSIONS, FUNCTIONS, LOOPS

# What is in one of these may run many times.
MANY = (*LOOPS, *COMPREHENSIONS)
# What decides which devices there are: it has to run before one is touched.
_SET_UP = re.compile(
    r"(^|\.)config\.(update|config_with_absl|parse_flags_with_absl)$|(^|\.)distributed\.initialize$"
    r"|^(os\.)?(environ\b|putenv$)|set_cpu_device"
)
_SET_UP_WORDS = ("config", "initialize", "environ", "putenv", "set_cpu_device")
# Each worker may import the script again.
_WORKERS = re.compile(r"\b(multiprocessing|ProcessPool\w*|DataLoader|joblib|ray)\b")
_FLAGS = re.compile(r"flags_with_absl|config_with_absl")
_ON_DEVICES = re.compile(
    r"jax\.(numpy|random|nn|lax)\.\w+$|jax\.(device|local_device|process|make_mesh)"
)


def runs_at_import(file: File, node: ast.expr) -> bool:
    """Whether a site is evaluated while its module is imported."""
    at: ast.AST = file.index.parents[node] if is_decorator(file, node) else node
    return file.index.function_around(at) is None


def runs_once(file: File, node: ast.AST, depth: int = 4, is_called: bool = False) -> bool:
    """Whether a place runs once: at the top level, or in a function that is called once.

    A function that the project does not call may be where it starts; `is_called`: that is not
    enough.
    """
    for around in file.index.ancestors(node):
        if isinstance(around, MANY):
            return False
        if isinstance(around, FUNCTIONS):
            called: ast.AST = around
            if isinstance(around, ast.FunctionDef) and around.name == "__init__":
                called = file.index.parents[around]  # the class: it makes an object
            is_global = called in file.index.root.body
            return is_global and depth > 0 and _is_called_once(file, called, depth, is_called)
    return True


def _is_called_once(file: File, function: ast.AST, depth: int, is_called: bool) -> bool:
    """Whether a project mentions a function at one place, which runs once, or starts with it."""
    name = getattr(function, "name", "")
    if getattr(function, "decorator_list", ()):
        return False
    uses: list[tuple[File, ast.AST]] = []
    for other in file.project.files_with(name):
        index = other.index
        uses += [(other, n) for n in index.nodes(ast.Name) if n.id == name]
        uses += [(other, n) for n in index.nodes(ast.Attribute) if n.attr == name]
    if len(uses) > 1 or (is_called and not uses):
        return False
    return all(runs_once(*use, depth - 1, is_called) for use in uses)


def may_touch_devices(file: File, line: int) -> bool:
    """Whether a module may touch devices at a line of its top level.

    A script may, and a notebook: what sets JAX up has run by then, and nobody imports them.
    """
    if file.source.cells is not None:
        return True
    if any(_sets_up_later(other, None) for other in _others_that_set_up(file)):
        return False
    if _sets_up_later(file, line):
        return False
    if any(_touches_devices(file, call) for call in file.index.nodes(ast.Call)):
        return True
    if not _has_guard(file) or _WORKERS.search(file.source.text):
        return False
    return not file.project.graph.importers(file.path)


def _others_that_set_up(file: File) -> list[File]:
    """The other files of a program whose texts may set JAX up."""
    named = [other for word in _SET_UP_WORDS for other in file.project.files_with(word)]
    others = [other for other in dict.fromkeys(named) if other.path != file.path]
    graph = file.project.graph
    return [other for other in others if graph.is_same_program(file.path, other.path)]


def _sets_up_later(file: File, limit: int | None) -> bool:
    """Whether a file sets JAX up in a function, or at the top level from a line on."""
    nodes: list[ast.Call | ast.Subscript] = [
        *file.index.nodes(ast.Call),
        *(node for node in file.index.nodes(ast.Subscript) if isinstance(node.ctx, ast.Store)),
    ]
    for node in nodes:
        text = ast.unparse(node.func if isinstance(node, ast.Call) else node.value)
        if _FLAGS.search(text):
            return True
        is_later = limit is not None and node.lineno >= limit
        if _SET_UP.search(text) and (is_later or file.index.function_around(node) is not None):
            return True
    return False


def _touches_devices(file: File, call: ast.Call) -> bool:
    """Whether a call makes or places an array while the module is imported."""
    if not _ON_DEVICES.match(file.called(call) or ""):
        return False
    around = list(file.index.ancestors(call))
    is_later = any(isinstance(node, FUNCTIONS) for node in around)
    return not is_later and not any(_is_guard(node) for node in around)


def _has_guard(file: File) -> bool:
    return any(_is_guard(node) for node in file.index.root.body)


def _is_guard(node: ast.AST) -> bool:
    """`if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
