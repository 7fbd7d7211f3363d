"""Code that asks whether this JAX has a name is left alone, as far as that name goes.

A guard is a try that catches the absence of the name, a `hasattr` or `getattr` of it, or a test
of JAX's version that keeps the target away. A guard for something else hides nothing: a program
that does without JAX (`try: import jax`), or an `except Exception` around a training loop.
"""

import ast
import operator
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from shardlift.source.file import File, remembered
from shardlift.source.model import Version, version
from shardlift.source.reaching import may_end_early
from shardlift.source.scopes import last_name, position

_ABSENT = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError"})
_ANY = frozenset({"Exception", "BaseException", ""})
_JAX_VERSION = re.compile(r"jax\w*\.(__)?version|jax\w*version|version\([\"']?jax", re.I)
_NUMBER = re.compile(r"\d+(\.\d+)*")
_SIMPLE = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)
_COMPARES: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def is_guarded(file: File, node: ast.AST, *names: str) -> bool:
    """Whether a guard for one of these names (removed ones, successors) stands around a node."""
    return guard_of(file, node, *names) is not None


def guard_of(file: File, node: ast.AST, *names: str) -> ast.AST | None:
    """The try, the handler or the test that guards a node, for one of these names."""
    child = node
    for parent in file.index.ancestors(node):
        if isinstance(parent, ast.Try) and _is_in(parent.body, child) and _catches(parent, child):
            return parent
        if isinstance(parent, ast.ExceptHandler) and _stands_in(file, parent, names):
            return parent
        if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
            body = parent.body if isinstance(parent, ast.If) else [parent.body]
            if _asks(file, parent.test, _is_in(body, child), names):
                return parent.test
        for before in _leaving(file, parent) if isinstance(child, ast.stmt) else ():
            if position(before) >= position(child):
                break
            if _asks(file, before.test, False, names):
                return before.test
        child = parent
    return None


def is_caught(file: File, node: ast.AST, error: str, seen: tuple[ast.AST, ...] = ()) -> bool:
    """Whether a try of the file may catch an error that a node raises, also in a caller."""
    child = node
    for parent in file.index.ancestors(node):
        if isinstance(parent, (ast.Try, ast.TryStar)) and child in parent.body:
            handlers = [h for h in parent.handlers if not isinstance(h.body[-1], ast.Raise)]
            if any({error, *_ANY} & _types(handler) for handler in handlers):
                return True
        if isinstance(parent, ast.With) and may_end_early(parent):
            return True
        if isinstance(parent, ast.FunctionDef) and parent not in seen:
            calls = [c for c in file.index.nodes(ast.Call) if last_name(c.func) == parent.name]
            return any(is_caught(file, call, error, (*seen, parent)) for call in calls)
        child = parent
    return False


def _catches(statement: ast.Try, child: ast.AST) -> bool:
    """Whether the absence of a name in a statement of a try is caught, and nothing much else."""
    imported = [a.name for s in statement.body if isinstance(s, ast.Import) for a in s.names]
    if "jax" in imported:
        return False  # it asks whether JAX is installed
    caught = {name for handler in statement.handlers for name in _types(handler)}
    if isinstance(child, (ast.Import, ast.ImportFrom)) and caught & _ABSENT:
        return True
    if not isinstance(child, _SIMPLE):
        return False
    return "AttributeError" in caught or (len(statement.body) == 1 and bool(caught & _ANY))


def _stands_in(file: File, handler: ast.ExceptHandler, names: Collection[str]) -> bool:
    """Whether a handler is for JAX versions without what its try names: the other spelling."""
    statement = file.index.parents.get(handler)
    if not isinstance(statement, ast.Try) or not set(_types(handler)) & (_ABSENT | _ANY):
        return False
    last = {name.rpartition(".")[2] for name in names}
    said = {name for inner in statement.body for name in _jax_names_in(file, inner)}
    return any(name in names or name.rpartition(".")[2] in last for name in said)


def _jax_names_in(file: File, statement: ast.stmt) -> set[str]:
    """The dotted names of JAX that a statement imports or uses."""
    used: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            used |= {f"{module}{alias.name}" for alias in node.names}
        else:
            used.add(file.name(node) or "")
    return {name for name in used if name.startswith("jax.")}


def _asks(file: File, test: ast.expr, is_body: bool, names: Collection[str]) -> bool:
    """Whether a test keeps the code of one of its branches from JAX versions without a name."""
    words = {part for name in names for part in name.split(".")} - {"jax"}
    defined = file.definition(test)
    for node in ast.walk(defined):
        inner = file.definition(node) if isinstance(node, ast.Name) else node
        if _is_presence(inner, words):
            return True
    if not _JAX_VERSION.search(file.text(test) + file.text(defined)):
        return False
    return _holds(file, defined) is not is_body


def _is_presence(node: ast.AST, words: Collection[str]) -> bool:
    """`hasattr(jax, "tree_map")`, `getattr(jax, "tree_map", None)`, `"name" in config.values`."""
    asked: ast.AST | None = None
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        asked = node.left
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("hasattr", "getattr"):
        asked = node.args[1] if len(node.args) > 1 else None
    return isinstance(asked, ast.Constant) and asked.value in words


def _holds(file: File, test: ast.expr) -> bool | None:
    """What `jax.__version_info__ < (0, 5)` is for the target; None if it cannot be told."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    compare = _COMPARES.get(type(test.ops[0]))
    left, right = _number(file, test.left), _number(file, test.comparators[0])
    if compare is None or (left is None) == (right is None):
        return None
    return compare(left or file.target, right or file.target)


def _number(file: File, node: ast.expr) -> Version | None:
    """The version that an expression writes out: `(0, 5)`, `"0.5"`, `parse("0.5")`."""
    constants = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant)]
    numbers = tuple(constant for constant in constants if isinstance(constant, int))
    if isinstance(node, ast.Tuple) and len(numbers) == len(node.elts):
        return numbers
    if len(constants) == 1 and _NUMBER.fullmatch(str(constants[0])):
        return None if _JAX_VERSION.search(file.text(node)) else version(str(constants[0]))
    return None


def _is_in(block: Sequence[ast.AST], child: ast.AST) -> bool:
    """Whether a part of a statement is in one of its blocks, which may be long."""
    return position(block[0]) <= position(child) <= position(block[-1])


@remembered
def _leaving(_: File, parent: ast.AST) -> list[ast.If]:
    """The ifs of a block that leave it (`if version …: return`): the rest is for other versions."""
    body = getattr(parent, "body", [])
    ifs = (s for s in (body if isinstance(body, list) else ()) if isinstance(s, ast.If))
    return [s for s in ifs if isinstance(s.body[-1], (ast.Return, ast.Raise))]


def _types(handler: ast.ExceptHandler) -> set[str]:
    nodes = ast.walk(handler.type) if handler.type else iter(())
    return (set(map(last_name, nodes)) - {""}) or {""}
