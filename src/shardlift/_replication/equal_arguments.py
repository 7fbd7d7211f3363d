"""The ``equal`` argument: leaves of the arguments that are equal on all devices."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax


def equal_leaves(
    equal: Any,
    fun: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    static: tuple[int | str, ...] = (),
) -> list[bool]:
    """One flag for each leaf of ``(args, kwargs)``, static arguments left out.

    >>> def fun(state, batch): ...
    >>> equal_leaves("state", fun, ({"w": 1.0, "b": 2.0}, 3.0), {})
    [True, True, False]
    """
    named = tuple(equal) if isinstance(equal, tuple | list | set | frozenset) else (equal,)
    if not all(type(name) in (int, str) for name in named):
        raise TypeError(f"equal takes positions and names of arguments; got {equal!r}.")
    chosen = {_argument(fun, args, kwargs, name) for name in named}
    flags = []
    for key, arg in [*enumerate(args), *sorted(kwargs.items())]:
        if key not in static:
            flags += [key in chosen] * len(jax.tree.leaves(arg))
    return flags


def _argument(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: int | str
) -> int | str:
    """The position of an argument, or its name if it is passed by keyword."""
    if isinstance(name, str):
        if name in kwargs:
            return name
        names = _parameters(fun)
        if name in names[: len(args)]:
            return names.index(name)
        raise ValueError(
            f"equal names an argument {name!r} that does not exist: the arguments are "
            f"{', '.join([*names[: len(args)], *kwargs]) or f'{len(args)} positional ones'}."
        )
    if not -len(args) <= name < len(args):
        raise ValueError(f"equal names argument {name}, but there are {len(args)} positional ones.")
    return name % len(args)


def _parameters(fun: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
