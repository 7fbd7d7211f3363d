"""Calls taken apart: path, leaf and device axis of every argument and output."""

from __future__ import annotations

import functools
import inspect
import linecache
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import jax

from shardlift.mapping.axes import Axis, argument_names, prefix_leaves
from shardlift.mapping.call import Call, with_static
from shardlift.mapping.site import Site

Rows = list[tuple[str, Any, Axis]]
_NO_NAMES = {"<lambda>", "wrapper", "wrapped", "inner", "block", "_fun"}


class FlatCall(NamedTuple):
    """The arguments of a call: path, leaf and device axis of each, and how to rebuild the call."""

    rows: Rows
    size: int  # devices; 0: not known
    rebuild: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]]
    # The devices of all processes, where the arrays only have those of this process.
    devices: Callable[[], Iterable[jax.Device]] = tuple

    @property
    def leaves(self) -> list[Any]:
        """The arguments that are not static, flat."""
        return [leaf for _, leaf, _ in self.rows]


class CallAdapter(Protocol):
    """Knows how the calls of one mapped function are taken apart."""

    @property
    def static(self) -> Collection[int]:
        """The positions of static arguments."""

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FlatCall:
        """Take the arguments of a call apart."""

    def outputs(self, out: Any) -> Rows:
        """Path, leaf and axis of every output."""


class PmapAdapter:
    """A pmap knows which axis of everything is the devices'."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.static: Collection[int] = site.options.static

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FlatCall:
        """Take the arguments of a call apart."""
        return self.flat(self.site.take_apart(args, kwargs))

    def flat(self, call: Call) -> FlatCall:
        """The same of a call that pmap itself has taken apart."""

        def rebuild(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            dynamic, named = jax.tree.unflatten(call.tree, leaves)
            return tuple(with_static(self.site.options, call.args, dynamic)), named

        def devices() -> Iterable[jax.Device]:
            mesh = self.site.with_plan(call, lambda plan: plan.mesh)
            return tuple(mesh.devices.flat)

        rows = list(zip(self.site.names(call), call.leaves, call.axes, strict=True))
        return FlatCall(rows, call.size, rebuild, devices)

    def outputs(self, out: Any) -> Rows:
        """Path, leaf and axis of every output."""
        axes = prefix_leaves(self.site.options.out_axes, out, "out_axes")
        rows = zip(output_leaves(out), axes, strict=True)
        return [(path, leaf, axis if axis is None else max(axis, 0)) for (path, leaf), axis in rows]


class JitAdapter:
    """Of jit and shard_map only the arrays themselves know how they lie."""

    def __init__(self, fun: Any, options: dict[str, Any]) -> None:
        self.fun = fun
        static, self.static_names = _static(fun, options)
        self.static: Collection[int] = static

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FlatCall:
        """Take the arguments of a call apart."""
        static = {k % len(args) for k in self.static if -len(args) <= k < len(args)}
        numbers = [k for k in range(len(args)) if k not in static]
        fixed = {name: kwargs[name] for name in kwargs if name in self.static_names}
        dynamic = tuple(args[k] for k in numbers)
        named = {name: value for name, value in kwargs.items() if name not in fixed}
        leaves, tree = jax.tree.flatten((dynamic, named))

        def rebuild(leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            given, rest = jax.tree.unflatten(tree, leaves)
            new = dict(zip(numbers, given, strict=True))
            return tuple(new.get(k, arg) for k, arg in enumerate(args)), {**rest, **fixed}

        paths = argument_names(self.fun, dynamic, named, numbers)
        rows: Rows = [(path, leaf, None) for path, leaf in zip(paths, leaves, strict=True)]
        return FlatCall(rows, 0, rebuild)

    def outputs(self, out: Any) -> Rows:
        """Path, leaf and axis of every output."""
        return [(path, leaf, None) for path, leaf in output_leaves(out)]


def output_leaves(out: Any) -> list[tuple[str, Any]]:
    """Path and leaf of every output."""
    flat = jax.tree_util.tree_flatten_with_path(out)[0]
    return [("output" + jax.tree_util.keystr(path), leaf) for path, leaf in flat]


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
    """The names of a function and of what it wraps, the outermost first."""
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
    match = re.match(r"\s*(?:self\.)?(\w+)\s*(?::[^=]+)?=[^=]", linecache.getline(file, line))
    return match[1] if match else None
