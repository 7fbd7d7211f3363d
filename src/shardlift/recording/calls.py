"""How the arguments and outputs of a mapped function are taken apart, by what maps it."""

from __future__ import annotations

import functools
import inspect
import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import jax

from shardlift.mapping.axes import argument_names
from shardlift.mapping.call import with_static
from shardlift.mapping.site import Site
from shardlift.recording.call_inspection import outputs_of

Rows = list[tuple[str, Any, int | None]]
_NO_NAMES = {"<lambda>", "wrapper", "wrapped", "inner", "block", "_fun"}


class Apart(NamedTuple):
    """The arguments of a call: path, leaf and device axis of each, and how to put them together."""

    rows: Rows
    size: int  # devices; 0: not known
    rebuilt: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]]
    args: tuple[Any, ...] = ()  # as they were given
    kwargs: Mapping[str, Any] = MappingProxyType({})
    static: tuple[int, ...] = ()  # which of them are not arrays

    @property
    def leaves(self) -> list[Any]:
        """The arguments that are not static, flat."""
        return [leaf for _, leaf, _ in self.rows]


class Way(Protocol):
    """What is asked of each."""

    def apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Apart:
        """Take the arguments of a call apart."""

    def outputs(self, out: Any) -> Rows:
        """Path, leaf and axis of every output."""


class PmapWay:
    """A pmap knows which axis of everything is the devices'."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Apart:
        """Take the arguments of a call apart."""
        call, options = self.site.take_apart(args, kwargs), self.site.options

        def rebuilt(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            dynamic, named = jax.tree.unflatten(call.tree, leaves)
            return tuple(with_static(options, args, dynamic)), named

        rows = list(zip(self.site.names(call), call.leaves, call.axes, strict=True))
        return Apart(rows, call.size, rebuilt, args, kwargs, tuple(options.static))

    def outputs(self, out: Any) -> Rows:
        """Path, leaf and axis of every output."""
        return outputs_of(self.site, out)


class PlainWay:
    """Of jit and shard_map only the arrays themselves know how they lie."""

    def __init__(self, fun: Any, options: dict[str, Any]) -> None:
        self.fun = fun
        self.static, self.static_names = _static(fun, options)

    def apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Apart:
        """Take the arguments of a call apart."""
        static = {k % len(args) for k in self.static if -len(args) <= k < len(args)}
        numbers = [k for k in range(len(args)) if k not in static]
        fixed = {name: kwargs[name] for name in kwargs if name in self.static_names}
        dynamic = tuple(args[k] for k in numbers)
        named = {name: value for name, value in kwargs.items() if name not in fixed}
        leaves, tree = jax.tree.flatten((dynamic, named))

        def rebuilt(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            given, rest = jax.tree.unflatten(tree, leaves)
            new = dict(zip(numbers, given, strict=True))
            return tuple(new.get(k, arg) for k, arg in enumerate(args)), {**rest, **fixed}

        paths = argument_names(self.fun, dynamic, named, numbers)
        rows: Rows = [(path, leaf, None) for path, leaf in zip(paths, leaves, strict=True)]
        return Apart(rows, 0, rebuilt, args, kwargs, tuple(sorted(static)))

    def outputs(self, out: Any) -> Rows:
        """Path, leaf and axis of every output."""
        flat = jax.tree_util.tree_flatten_with_path(out)[0]
        return [("output" + jax.tree_util.keystr(path), leaf, None) for path, leaf in flat]


def _static(fun: Any, options: dict[str, Any]) -> tuple[set[int], set[str]]:
    numbers, names = options.get("static_argnums"), options.get("static_argnames")
    positions = {numbers} if isinstance(numbers, int) else set(numbers or ())
    named = {names} if isinstance(names, str) else set(names or ())
    try:
        parameters = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        return positions, named
    positions |= {k for k, name in enumerate(parameters) if name in named}
    named |= {parameters[k] for k in positions if -len(parameters) <= k < len(parameters)}
    return positions, named


# ---- names


def names_of(fun: Any) -> Iterator[str]:
    """What a function is called, and what it wraps, the outermost first."""
    seen: set[int] = set()
    while fun is not None and id(fun) not in seen:
        seen.add(id(fun))
        name = getattr(fun, "__name__", None)
        if isinstance(name, str) and name not in _NO_NAMES:
            yield name
        inner = fun.func if isinstance(fun, functools.partial) else None
        fun = inner or getattr(fun, "__wrapped__", None) or getattr(fun, "__func__", None)


def assigned_name(file: str, line: int) -> str | None:
    """The variable that a line assigns to."""
    found = re.match(r"\s*(?:self\.)?(\w+)\s*(?::[^=]+)?=[^=]", linecache.getline(file, line))
    return found[1] if found else None
