"""pmap by other means: partials, projects' own functions around it, decorator factories."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlift.source.scopes import FUNCTIONS, Function, positional
from shardlift.source.values import (
    Argument,
    External,
    Known,
    Located,
    Mapped,
    Output,
    Partial,
    Result,
    Transform,
    Value,
)

if TYPE_CHECKING:
    from shardlift.source.file import File

PMAPS = frozenset(
    {
        "jax.pmap",
        "jax.api.pmap",
        "equinox.filter_pmap",
        "flax.nnx.pmap",
        "flax.experimental.nnx.pmap",
        "objax.Parallel",
    }
)
# How each spells its second positional parameter.
_SECOND = {"objax.Parallel": "vc"}
_OPERAND_NAMES = ("fun", "f", "func", "fn")
# Transforms whose functions return what the function that they are given returns, as a tree.
SAME_RESULT = frozenset(
    f"jax.{name}" for name in ("jit", "vmap", "checkpoint", "remat", "custom_jvp", "custom_vjp")
)
_PLAIN_DECORATORS = SAME_RESULT | {
    "builtins.staticmethod", "builtins.classmethod", "functools.wraps", "functools.cache",
    "functools.lru_cache",
}  # fmt: skip


def as_transform(value: Value) -> Transform | None:
    """The value as something that pmaps the function that it is called with, if it is that."""
    if isinstance(value, Transform):
        return value
    if isinstance(value, External):
        return Transform(value.path) if value.path in PMAPS else None
    if isinstance(value, Known) and isinstance(value.node, ast.FunctionDef):
        known = value.file.wrappers
        if value.node not in known:
            known[value.node] = None  # a function that calls itself ends here
            known[value.node] = _wrapper(value)
        return known[value.node]
    return None


def is_plain(function: Known) -> bool:
    """Whether a call of a function returns what its `return` statements say."""
    node = function.node
    if isinstance(node, ast.Lambda):
        return True
    if not isinstance(node, ast.FunctionDef) or node in function.file.index.generators:
        return False
    return all(keeps_result(function.file, decorator) for decorator in node.decorator_list)


def keeps_result(file: File, decorator: ast.expr) -> bool:
    """Whether a decorator is known to leave what a function returns as it is."""
    value = file.only(decorator)
    if isinstance(value, Partial):
        value = value.function
    if isinstance(value, (External, Result)) and value.path in _PLAIN_DECORATORS:
        return True
    transform = as_transform(value) if value is not None else None
    return transform is not None and not transform.chain


def apply(transform: Transform, call: ast.Call, file: File, skip: int = 0) -> Value:
    """What calling a transform gives: a mapped function, or the transform filled further in."""
    operand = _operand(transform, call, skip)
    if operand is None:
        return filled(transform, call, file, skip)
    keywords = {**transform.keywords, **_keywords(transform, call, file, skip)}
    return Mapped(transform, Located(operand, file), call, file, keywords)


def filled(transform: Transform, call: ast.Call, file: File, skip: int = 1) -> Transform:
    """The transform with the keywords of a partial on top of its own."""
    keywords = {**transform.keywords, **_keywords(transform, call, file, skip)}
    return replace(transform, keywords=keywords)


def given(function: Known, parameter: str, call: ast.Call) -> ast.expr | None:
    """The expression that a call gives to a parameter, if it can be told."""
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    node = function.node
    assert isinstance(node, FUNCTIONS)
    names = positional(node)[_bound(function) :]
    if parameter in names:
        place = names.index(parameter)
        before = call.args[: place + 1]
        if len(before) > place and not any(isinstance(a, ast.Starred) for a in before):
            return before[place]
    return None


def _operand(transform: Transform, call: ast.Call, skip: int) -> ast.expr | None:
    names = (transform.operand_name, *_OPERAND_NAMES) if not transform.chain else ()
    for keyword in call.keywords:
        if keyword.arg == transform.operand_name or keyword.arg in names:
            return keyword.value
    arguments = call.args[skip:]
    if len(arguments) > transform.operand:
        operand = arguments[transform.operand]
        return None if isinstance(operand, ast.Starred) else operand
    return None


def _keywords(transform: Transform, call: ast.Call, file: File, skip: int) -> dict[str, Located]:
    found = {k.arg: Located(k.value, file) for k in call.keywords if k.arg is not None}
    arguments = call.args[skip:]
    if not transform.chain and len(arguments) > 1:
        found[_SECOND.get(transform.origin, "axis_name")] = Located(arguments[1], file)
    found.pop(transform.operand_name, None)
    return found


def _wrapper(function: Known) -> Transform | None:
    """A function that returns the pmap of one of its own arguments."""
    for mapped in _mapped_inside(function):
        operand = mapped.operand
        if not isinstance(operand, Located):
            continue
        for value in operand.file.values(operand.node):
            if isinstance(value, Argument) and value.function is function.node:
                return _around(function, mapped, value)
    return None


def _around(function: Known, mapped: Mapped, argument: Argument) -> Transform:
    node = function.node
    assert isinstance(node, ast.FunctionDef)
    names = positional(node)[_bound(function) :]
    name = argument.node.arg
    place = names.index(name) if name in names else 0
    chain = (node.name, *mapped.transform.chain)
    certain = mapped.transform.certain and is_plain(function) and _always_maps(function)
    return Transform(mapped.transform.origin, mapped.keywords, chain, place, name, certain)


def _always_maps(function: Known) -> bool:
    """Whether a wrapper has one way through, and pmap is on it."""
    from shardlift.source.resolve import returns

    found = [function.file.values(returned) for returned in returns(function)]
    if len(found) != 1 or len(found[0]) != 1:
        return False
    value = found[0][0]
    if isinstance(value, Known):
        inner = [value.file.values(returned) for returned in returns(value)]
        result = inner[0][0] if len(inner) == 1 and len(inner[0]) == 1 else None
        return isinstance(result, Output) and not result.path and is_plain(value)
    return isinstance(value, Mapped)


def _mapped_inside(function: Known) -> Iterator[Mapped]:
    from shardlift.source.resolve import returns

    for returned in returns(function):
        for value in function.file.values(returned):
            if isinstance(value, Mapped):
                yield value
            elif isinstance(value, Known) and _inside(value.node, function.node):
                # A closure that calls the mapped function: what it returns is an output.
                for inner in returns(value):
                    for found in value.file.values(inner):
                        if isinstance(found, Output):
                            yield found.mapped


def _inside(inner: ast.AST, outer: Function | ast.ClassDef) -> bool:
    first, last = inner.lineno, inner.end_lineno or 0  # type: ignore[attr-defined]
    return outer.lineno < first and last <= (outer.end_lineno or 0)


def _bound(function: Known) -> int:
    """1 for a method, whose `self` the call does not name."""
    owner = function.file.index.parents.get(function.node)
    static = any(
        isinstance(decorator, ast.Name) and decorator.id == "staticmethod"
        for decorator in getattr(function.node, "decorator_list", [])
    )
    return int(isinstance(owner, ast.ClassDef) and not static)
