"""The arguments of one call, with and without the static arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from shardlift.mapping.axes import Axis
from shardlift.mapping.pmap_options import PmapOptions


class Call(NamedTuple):
    """The arguments of one call, flattened."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: list[Any]  # of the arguments that are not static
    tree: Any
    axes: list[Axis]
    size: int  # the number of rows: of devices along the pmap's own axis


def dynamic_args(options: PmapOptions, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The positional arguments that are not static."""
    if not options.static:
        return args
    if options.static[-1] >= len(args):
        raise ValueError(
            f"pmapped function has static_broadcasted_argnums={options.static} but was called "
            f"with only {len(args)} positional argument{'s' if len(args) != 1 else ''}. All "
            "static broadcasted arguments must be passed positionally."
        )
    return tuple(arg for k, arg in enumerate(args) if k not in options.static)


def with_static(
    options: PmapOptions, args: tuple[Any, ...], dynamic: Sequence[Any]
) -> Sequence[Any]:
    """``args`` with those that are not static replaced by ``dynamic``."""
    if not options.static:
        return dynamic
    rest = iter(dynamic)
    return [arg if k in options.static else next(rest) for k, arg in enumerate(args)]
