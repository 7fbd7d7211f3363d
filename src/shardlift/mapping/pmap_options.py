"""The arguments of ``pmap``, checked once and in one form."""

from __future__ import annotations

import dataclasses
import inspect
import operator
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Literal, get_args

import jax

Reshard = Literal["error", "warn", "silent"]
View = Literal["local", "global"]


@dataclasses.dataclass(frozen=True)
class PmapOptions:
    """The arguments of one ``pmap``, validated; ``key`` makes equal ones share a site."""

    axis_name: Hashable | None
    in_axes: Any
    out_axes: Any
    static: tuple[int, ...]
    donate: tuple[int, ...]
    devices: tuple[jax.Device, ...] | None
    backend: str | None
    axis_size: int | None
    reshard: Reshard
    view: View = "local"

    def key(self) -> Hashable:
        """A hashable value, equal for options that mean the same."""
        trees = tuple(
            (tuple(leaves), treedef)
            for leaves, treedef in map(flatten_axes, (self.in_axes, self.out_axes))
        )
        rest = (self.static, self.donate, self.devices, self.backend, self.axis_size)
        return (type(self.axis_name), self.axis_name, trees, rest, self.reshard, self.view)

    def dynamic(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The positional arguments that are not static."""
        if not self.static:
            return args
        if self.static[-1] >= len(args):
            raise ValueError(
                f"pmapped function has static_broadcasted_argnums={self.static} but was called "
                f"with only {len(args)} positional argument{'s' if len(args) != 1 else ''}. All "
                "static broadcasted arguments must be passed positionally."
            )
        return tuple(arg for k, arg in enumerate(args) if k not in self.static)

    def with_static(self, args: tuple[Any, ...], dynamic: Iterable[Any]) -> tuple[Any, ...]:
        """``args`` with the arguments that are not static replaced by ``dynamic``."""
        rest = iter(dynamic)
        return tuple(arg if k in self.static else next(rest) for k, arg in enumerate(args))


def flatten_axes(axes: Any) -> tuple[list[int | None], Any]:
    """Flatten an axes tree, where ``None`` means "not mapped" and is a leaf."""
    return jax.tree.flatten(axes, is_leaf=lambda leaf: leaf is None)


def check_options(
    fun: Callable[..., Any],
    *,
    axis_name: Hashable | None = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    donate_argnums: int | Iterable[int] = (),
    devices: Iterable[jax.Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    reshard: Reshard = "error",
    view: View = "local",
) -> PmapOptions:
    """Validate the arguments of ``pmap``; raises as ``jax.pmap`` does."""
    if not callable(fun):
        raise TypeError(f"pmap expected a callable value, got {fun!r}. Expected a callable value.")
    if inspect.isgeneratorfunction(fun):
        raise TypeError(f"pmap expected a function, got a generator function: {fun}")
    hash(axis_name)
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not all(type(leaf) is int for leaf in jax.tree.leaves(axes)):
            raise TypeError(
                f"pmap {what} must be an int, None, or (nested) container with those types as "
                f"leaves, but got {axes!r}."
            )
    for what, value, allowed in (("reshard", reshard, Reshard), ("view", view, View)):
        if value not in get_args(allowed):
            raise ValueError(f"pmap {what} must be one of {get_args(allowed)}, but got {value!r}.")
    static = _argnums(fun, static_broadcasted_argnums)
    donate = _argnums(fun, donate_argnums)
    if both := sorted(set(static) & set(donate)):
        raise ValueError(
            f"pmap arguments {both} are both in static_broadcasted_argnums and in donate_argnums: "
            "a static argument has no buffer to donate."
        )
    given = None if devices is None else tuple(devices)
    if given == ():
        raise ValueError("'devices' argument to pmap must be non-empty, or None.")
    if given and (twice := sorted({str(d) for d in given if given.count(d) > 1})):
        raise ValueError(
            f"'devices' argument to pmap names {', '.join(twice)} more than once: one program "
            "runs on each device, so a device can take part only once."
        )
    size = None if axis_size is None else operator.index(axis_size)
    if size is not None and size < 1:
        raise ValueError(f"pmap axis_size must be at least 1, but got {size}.")
    return PmapOptions(
        axis_name, in_axes, out_axes, static, donate, given, backend, size, reshard, view
    )


def _argnums(fun: Callable[..., Any], nums: int | Iterable[int]) -> tuple[int, ...]:
    """Sorted, distinct, non-negative argument numbers."""
    numbers = (nums,) if isinstance(nums, int) else tuple(nums)
    return tuple(sorted({_nonnegative(fun, operator.index(num)) for num in numbers}))


def _nonnegative(fun: Callable[..., Any], num: int) -> int:
    if num >= 0:
        return num
    named = positional_names(fun)
    variadic = any(p.kind is p.VAR_POSITIONAL for p in _parameters(fun))
    if variadic or num + len(named) < 0:
        raise ValueError(
            f"pmap cannot tell which argument of {fun} has number {num}: count from the front."
        )
    return num + len(named)


def positional_names(fun: Callable[..., Any]) -> list[str]:
    """The names of the parameters that can be given by position; none where it is not known."""
    return [
        p.name for p in _parameters(fun) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]


def _parameters(fun: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return ()
