"""`--strict-vma`: check_vma=True, with the same gradients as pmap.

With check_vma, JAX sums a gradient with respect to a whole value over the devices, and after the
pmean of the program it is too large by a factor of the number of devices (JAX 0.10.2 and 0.12).
So the gradient is taken with respect to `jax.lax.pcast(params, axis, to="varying")`: it is that of
one device again, and the pmean has its old meaning. Without check_vma, pcast does nothing.
Dividing by the number of devices instead of the pmean gave the same bits, but is right only if
every use of the gradients is known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from shardlift.migrate.call_format import Style
from shardlift.migrate.device_axis.cells import Place
from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.solve import Decision, Layout
from shardlift.migrate.device_axis.wrapper import filled
from shardlift.migrate.names import jax_name
from shardlift.migrate.options import NotLiteralError, literal
from shardlift.source.file import File
from shardlift.source.libraries import GRADS
from shardlift.source.model import Edit, Kind, Match
from shardlift.source.scopes import FUNCTIONS, end, position, positional
from shardlift.source.values import Argument, Known
from shardlift.source.wrappers import argument_for

_DEEPEST = 5  # calls of functions that are followed


def obstacle(site: Site, decision: Decision) -> str | None:
    """Why check_vma has to stay off at a site."""
    if site.facts is None:
        return "no run of it was recorded"
    if site.out_axes != 0:
        return "its out_axes promise what is not proven to be the same on all devices"
    if any(decision.state(site, k) is not None for k in range(site.arguments or 0)):
        return "some fields of a state stay one per device, and others do not"
    if any(one.gradient for one in site.facts.collectives):
        return "a gradient goes through a collective, which check_vma differentiates otherwise"
    if site.axis_name is None or site.function is None:
        return "its axis or its function is not written out"
    for gradient in _gradients(site, decision):
        if gradient.whole is None:
            text = gradient.at.file.brief(gradient.at.node)
            return f"at {gradient.at}, a gradient is taken of `{text}`, which may be whole or not"
    return None


def casts(site: Site, decision: Decision) -> Iterator[tuple[File, Match]]:
    """The edits with which the gradients of a site are taken of varying values."""
    for gradient in _gradients(site, decision):
        if gradient.whole and site.axis_name is not None:
            file, node = gradient.at.file, gradient.at.node
            jax, imports = jax_name(file)
            axis = Style.of(file.source.text).string(site.axis_name)
            before = Edit(file.stretch(*position(node), *position(node)), f"{jax}.lax.pcast(")
            after = Edit(file.stretch(*end(node), *end(node)), f', {axis}, to="varying")')
            yield file, Match(node, "", (before, after), imports, kind=Kind.DEVICE_AXIS)


class Gradient(NamedTuple):
    """An argument with respect to which a gradient is taken; whether it is whole, if known."""

    at: Place
    whole: bool | None


def _gradients(site: Site, decision: Decision) -> Iterator[Gradient]:
    if site.function is None:
        return
    names = positional(site.function.node)[filled(site) :]  # type: ignore[arg-type]
    whole = {
        name: decision.argument(site, k) is Layout.WHOLE
        for k, name in enumerate(names[: site.arguments])
    }
    yield from _differentiated(site.function, whole, _DEEPEST)


def _differentiated(function: Known, whole: dict[str, bool], depth: int) -> Iterator[Gradient]:
    """The gradients that a function takes, or a function of the program that it calls."""
    file = function.file
    for call in file.index.within(function.node, ast.Call):
        gradient = _gradient(file, call)
        if gradient is not None:
            for number in _numbers(gradient):
                if number < len(call.args):
                    node = call.args[number]
                    yield Gradient(Place(file, node), _comes_from(file, node, function, whole))
            continue
        value = file.only(call.func)
        if depth and isinstance(value, Known) and isinstance(value.node, FUNCTIONS):
            arguments = {name: argument_for(value, name, call) for name in positional(value.node)}
            known = {
                name: _comes_from(file, argument, function, whole)
                for name, argument in arguments.items()
                if argument is not None
            }
            told = {name: one for name, one in known.items() if one is not None}
            if value.node is not function.node:
                yield from _differentiated(value, told, depth - 1)


def _gradient(file: File, call: ast.Call) -> ast.Call | None:
    """The call of `jax.grad` that made the function of a call."""
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
    """Whether an expression is a whole parameter or a part of one; None if that is not known."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    value = file.only(node)
    if isinstance(value, Argument):
        return whole.get(value.node.arg) if value.function is function.node else None
    definition = file.definition(node)
    return None if definition is node else _comes_from(file, definition, function, whole)
