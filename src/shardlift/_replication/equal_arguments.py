"""The ``equal`` argument: leaves of the arguments that are equal on all devices."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

import jax
import numpy as np

from shardlift.mapping.axes import argument_names


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
    >>> equal_leaves(({"w": True, "b": False}, False), fun, ({"w": 1.0, "b": 2.0}, 3.0), {})
    [False, True, False]
    """
    dynamic = [k for k in range(len(args)) if k not in static]
    named = tuple(equal) if isinstance(equal, tuple | list | set | frozenset) else (equal,)
    if not all(type(name) in (int, str) for name in named):
        flags = _spread(equal, fun, args, dynamic)
        keywords = {k: arg for k, arg in kwargs.items() if k not in static}
        return flags + [False] * len(jax.tree.leaves(keywords))
    chosen = {_argument(fun, args, kwargs, name) for name in named}
    flags = []
    for key, arg in [*enumerate(args), *sorted(kwargs.items())]:
        if key not in static:
            flags += [key in chosen] * len(jax.tree.leaves(arg))
    return flags


def _spread(
    equal: Any, fun: Callable[..., Any], args: tuple[Any, ...], dynamic: list[int]
) -> list[bool]:
    """Spread a tuple of trees of booleans, one per positional argument, over the leaves."""
    if isinstance(equal, bool):
        return [equal] * len(jax.tree.leaves([args[k] for k in dynamic]))
    if not isinstance(equal, tuple):
        raise TypeError(
            "equal takes positions and names of arguments, or a tuple with a tree of booleans for "
            f"each argument; got {equal!r}."
        )
    if len(equal) != len(args):
        raise ValueError(
            f"equal has booleans for {len(equal)} arguments, but there are {len(args)} positional "
            "ones: give a tuple with one entry for each, counting static ones."
        )
    flags: list[bool] = []
    for k in dynamic:
        leaves, tree = cast("tuple[list[Any], Any]", jax.tree.flatten(equal[k]))
        try:
            below = tree.flatten_up_to(args[k])
        except ValueError as error:
            raise ValueError(
                f"equal does not fit argument {_name(fun, k)}: {error}. It must be a tree prefix "
                "of the argument, with a boolean for everything below it."
            ) from None
        for leaf, part in zip(leaves, below, strict=True):
            flags += [_flag(leaf, _name(fun, k))] * len(jax.tree.leaves(part))
    return flags


def _name(fun: Callable[..., Any], k: int) -> str:
    return argument_names(fun, (0,), {}, [k])[0]


def _flag(leaf: Any, name: str) -> bool:
    """The boolean at a leaf; some tree nodes turn their children into arrays."""
    if isinstance(leaf, bool) or (np.ndim(leaf) == 0 and np.asarray(leaf).dtype.kind in "biu"):
        return bool(leaf)
    raise TypeError(f"equal takes booleans in the tree for argument {name}; got {leaf!r}.")


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
