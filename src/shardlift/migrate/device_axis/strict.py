"""`--strict-vma`: check_vma=True, with the gradients that pmap gave.

Under check_vma a gradient with respect to a value that is whole on every device is summed over
the devices for you, and the program's own pmean no longer undoes that: it comes out as many times
too large as there are devices (jax 0.10.2 and 0.12). `jax.lax.pcast(params, axis, to="varying")`
at the call of the gradient makes it one device's again, and the pmean what it was. Dividing by
the number of devices in the place of the pmean gave the same bits, but has to know every use of
the gradients; pcast has not, and does nothing without check_vma.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.solve import Decision, Layout
from shardlift.migrate.names import jax_name
from shardlift.migrate.options import NotLiteralError, literal
from shardlift.source.file import File
from shardlift.source.libraries import GRADS
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.scopes import FUNCTIONS, end, position, positional
from shardlift.source.sites import mapped_function
from shardlift.source.values import Argument, Constant, Known
from shardlift.source.wrappers import given

_DEEPEST = 5  # calls of functions that are followed


def obstacle(site: Site, decision: Decision) -> str | None:
    """Why check_vma stays off at a site."""
    if site.facts is None:
        return "no run of it was recorded"
    if any(one.gradient for one in site.facts.collectives):
        return "a gradient goes through a collective, which check_vma differentiates otherwise"
    function = mapped_function(site.mapped) if site.mapped is not None else None
    if axis_of(site) is None or function is None:
        return "its axis or its function is not written out"
    for found in _gradients(site, function, decision):
        if found.whole is None:
            at = f"{found.file.path}:{found.file.span(found.node).line}"
            text = found.file.brief(found.node)
            return f"at {at}, a gradient is taken of `{text}`, which may be whole or not"
    return None


def axis_of(site: Site) -> str | None:
    """The axis name, as text of Python."""
    node = site.options.keywords.get("axis_name")
    value = site.file.only(node) if node is not None else None
    if isinstance(value, Constant) and isinstance(value.value, str):
        return repr(value.value)
    return None


def casts(site: Site, decision: Decision) -> Iterator[tuple[File, Match]]:
    """The gradients of a site with respect to what is whole, taken of varying values."""
    function = mapped_function(site.mapped) if site.mapped is not None else None
    axis = axis_of(site)
    for found in _gradients(site, function, decision) if function is not None and axis else ():
        if found.whole:
            file, node = found.file, found.node
            jax, imports = jax_name(file)
            quoted = axis.replace("'", '"') if axis and '"' in file.source.text else axis
            before = Edit(file.stretch(*position(node), *position(node)), f"{jax}.lax.pcast(")
            after = Edit(file.stretch(*end(node), *end(node)), f', {quoted}, to="varying")')
            yield file, Match(node, "", (before, after), imports, kind=Kind.DEVICE_AXIS)


class Gradient(NamedTuple):
    """An argument with respect to which a gradient is taken; whether it is whole, if known."""

    file: File
    node: ast.expr
    whole: bool | None


def _gradients(site: Site, function: Known, decision: Decision) -> Iterator[Gradient]:
    names = positional(function.node)[_filled(site) :]  # type: ignore[arg-type]
    whole = {
        name: decision.argument(site, k) is Layout.WHOLE
        for k, name in enumerate(names[: site.arguments])
    }
    yield from _differentiated(function, whole, _DEEPEST)


def _filled(site: Site) -> int:
    """How many parameters a partial has filled."""
    operand = site.options.operand
    if isinstance(operand, ast.Call) and site.file.called(operand) == "functools.partial":
        return len(operand.args) - 1
    return 0


def _differentiated(function: Known, whole: dict[str, bool], depth: int) -> Iterator[Gradient]:
    """The arguments of gradients in a function, and in those of the program that it calls."""
    file = function.file
    for call in file.index.within(function.node, ast.Call):
        gradient = _gradient(file, call)
        if gradient is not None:
            for number in _numbers(gradient):
                if number < len(call.args):
                    node = call.args[number]
                    yield Gradient(file, node, _comes_from(file, node, function, whole))
            continue
        value = file.only(call.func)
        if depth and isinstance(value, Known) and isinstance(value.node, FUNCTIONS):
            arguments = {name: given(value, name, call) for name in positional(value.node)}
            known = {
                name: _comes_from(file, argument, function, whole)
                for name, argument in arguments.items()
                if argument is not None
            }
            told = {name: one for name, one in known.items() if one is not None}
            if value.node is not function.node:
                yield from _differentiated(value, told, depth - 1)


def _gradient(file: File, call: ast.Call) -> ast.Call | None:
    """The call of grad that made what is called."""
    made = file.definition(call.func) if isinstance(call.func, ast.Name) else call.func
    return made if isinstance(made, ast.Call) and file.called(made) in GRADS else None


def _numbers(gradient: ast.Call) -> tuple[int, ...]:
    node = gradient.args[1] if len(gradient.args) > 1 else None
    for keyword in gradient.keywords:
        node = keyword.value if keyword.arg == "argnums" else node
    try:
        value = 0 if node is None else literal(node)
    except NotLiteralError:
        return ()
    numbers = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(number for number in numbers if type(number) is int and number >= 0)


def _comes_from(file: File, node: ast.expr, function: Known, whole: dict[str, bool]) -> bool | None:
    """Whether an expression is a whole parameter, or a part of one; None if it cannot be told."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    value = file.only(node)
    if isinstance(value, Argument):
        return whole.get(value.node.arg) if value.function is function.node else None
    definition = file.definition(node)
    return None if definition is node else _comes_from(file, definition, function, whole)
