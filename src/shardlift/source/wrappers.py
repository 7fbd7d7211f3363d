"""Wrappers of pmap: partials, functions of the project around it, decorator factories."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlift.source.libraries import PMAPS
from shardlift.source.scopes import FUNCTIONS, has_star, is_static, keyword_value, positional
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

# The name of the second positional parameter, where it is not `axis_name`.
_SECOND = {"objax.Parallel": "vc"}
_OPERAND_NAMES = ("fun", "f", "func", "fn")
# Decorators that do not change the tree structure of a function's result.
_PLAIN_DECORATORS = frozenset({
    "jax.jit", "jax.vmap", "jax.checkpoint", "jax.remat", "jax.custom_jvp", "jax.custom_vjp",
    "builtins.staticmethod", "builtins.classmethod", "functools.wraps", "functools.cache",
    "functools.lru_cache",
})  # fmt: skip


def as_transform(value: Value) -> Transform | None:
    """The transform that a value is, if calling it with a function pmaps the function."""
    if isinstance(value, Transform):
        return value
    if isinstance(value, External):
        return Transform(value.path) if value.path in PMAPS else None
    if isinstance(value, Known) and isinstance(value.node, ast.FunctionDef):
        known = value.file.wrappers
        if value.node not in known:
            known[value.node] = None  # ends the recursion of a function that calls itself
            known[value.node] = _wrapper(value)
        return known[value.node]
    return None


def is_plain(function: Known) -> bool:
    """Whether calling a function gives the value of one of its `return` statements."""
    node = function.node
    if isinstance(node, ast.Lambda):
        return True
    if not isinstance(node, ast.FunctionDef) or node in function.file.index.generators:
        return False
    return all(keeps_result(function.file, decorator) for decorator in node.decorator_list)


def keeps_result(file: File, decorator: ast.expr) -> bool:
    """Whether a decorator is known not to change the result of a function."""
    value = file.only(decorator)
    if isinstance(value, Partial):
        value = value.function
    if isinstance(value, (External, Result)) and value.path in _PLAIN_DECORATORS:
        return True
    transform = as_transform(value) if value is not None else None
    return transform is not None and not transform.chain


def apply_transform(transform: Transform, call: ast.Call, file: File, skip: int = 0) -> Value:
    """The result of calling a transform: a mapped function, or a transform with more keywords.

    The first `skip` positional arguments are not the transform's: `partial` takes one itself.
    """
    more = add_keywords(transform, call, file, skip)
    operand = _operand(transform, call, skip)
    if operand is None:
        return more
    return Mapped(transform, Located(operand, file), call, file, more.keywords)


def add_keywords(transform: Transform, call: ast.Call, file: File, skip: int = 1) -> Transform:
    """The transform with the keywords of a partial in addition to its own."""
    keywords = {k.arg: Located(k.value, file) for k in call.keywords if k.arg is not None}
    arguments = call.args[skip:]
    if not transform.chain and len(arguments) > 1:
        keywords[_SECOND.get(transform.origin, "axis_name")] = Located(arguments[1], file)
    keywords.pop(transform.operand_name, None)
    return replace(transform, keywords={**transform.keywords, **keywords})


def argument_for(function: Known, parameter: str, call: ast.Call) -> ast.expr | None:
    """The expression that a call passes for a parameter, if that can be determined."""
    if (by_keyword := keyword_value(call, parameter)) is not None:
        return by_keyword
    names = _explicit_parameters(function)
    if parameter in names:
        place = names.index(parameter)
        before = call.args[: place + 1]
        if len(before) > place and not has_star(before):
            return before[place]
    return None


def _operand(transform: Transform, call: ast.Call, skip: int) -> ast.expr | None:
    names = (transform.operand_name, *(() if transform.chain else _OPERAND_NAMES))
    for keyword in call.keywords:
        if keyword.arg in names:
            return keyword.value
    arguments = call.args[skip:]
    if len(arguments) > transform.operand:
        operand = arguments[transform.operand]
        return None if isinstance(operand, ast.Starred) else operand
    return None


def _wrapper(function: Known) -> Transform | None:
    """The transform that a function is, if it returns the pmap of one of its arguments."""
    for mapped in _mapped_inside(function):
        operand = mapped.operand
        for value in operand.file.values(operand.node) if isinstance(operand, Located) else ():
            if isinstance(value, Argument) and value.function is function.node:
                names, name = _explicit_parameters(function), value.node.arg
                certain = mapped.transform.certain and is_plain(function) and _always_maps(function)
                return Transform(
                    mapped.transform.origin,
                    mapped.keywords,
                    (function.node.name, *mapped.transform.chain),  # type: ignore[union-attr]
                    names.index(name) if name in names else 0,
                    name,
                    certain,
                )
    return None


def _always_maps(function: Known) -> bool:
    """Whether a wrapper has a single result, and that is pmapped."""
    results = list(_results(function))
    if len(function.returns()) != 1 or len(results) != 1:
        return False
    inner = results[0]
    if not isinstance(inner, Known):
        return isinstance(inner, Mapped)
    results = list(_results(inner))
    is_output = len(results) == 1 and isinstance(results[0], Output) and not results[0].path
    return is_output and len(inner.returns()) == 1 and is_plain(inner)


def _mapped_inside(function: Known) -> Iterator[Mapped]:
    outer = function.node
    for value in _results(function):
        if isinstance(value, Mapped):
            yield value
        elif isinstance(value, Known) and outer in value.file.index.ancestors(value.node):
            # A closure that calls the mapped function returns an output of it.
            yield from (r.mapped for r in _results(value) if isinstance(r, Output))


def _results(function: Known) -> Iterator[Value]:
    for returned in function.returns():
        yield from function.file.values(returned)


def _explicit_parameters(function: Known) -> list[str]:
    """The positional parameters that a call names: not the `self` of a method."""
    assert isinstance(function.node, FUNCTIONS)
    owner = function.file.index.parents.get(function.node)
    is_bound = isinstance(owner, ast.ClassDef) and not is_static(function.node)
    return positional(function.node)[is_bound:]
