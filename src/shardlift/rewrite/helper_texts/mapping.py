"""pmaps inside one another: `jax.shard_map` over a mesh of several axes, as one device sees it."""

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .spmd_map_parts import _at_axes, _of_one_process, _remember


@_remember
def shard_map_per_device(
    f: Callable[..., Any],
    axis_name: tuple[Hashable, ...],
    in_specs: Any = None,
    out_specs: Any = None,
    *,
    devices: Sequence[jax.Device] | None = None,
) -> Any:
    """`jax.shard_map` of `f` over a mesh that has an axis for each name.

    `f` sees its row without the axes that `in_specs` shards; those of
    `out_specs` are added to what it returns. Both are the leading axes unless
    given, and always for keyword arguments.
    """
    leading = jax.P(*axis_name)
    specs = (leading if in_specs is None else in_specs, leading)
    out_specs = leading if out_specs is None else out_specs

    @functools.wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        def one_row(*blocks: Any) -> Any:
            row, named = _at_axes(jnp.squeeze, specs, blocks)
            return _at_axes(jnp.expand_dims, out_specs, f(*row, **named))

        sharded = jax.shard_map(
            one_row,
            mesh=_mesh_of_rows(axis_name, specs, (args, kwargs), devices),
            in_specs=specs,
            out_specs=out_specs,
            check_vma=False,
        )
        return sharded(args, kwargs)

    return mapped


def _mesh_of_rows(
    axis_name: tuple[Hashable, ...],
    specs: Any,
    rows: Any,
    devices: Sequence[jax.Device] | None,
) -> jax.sharding.Mesh:
    """As many devices as there are rows: the first, or those given."""
    sizes: dict[Any, int] = {}

    def count(spec: jax.P, part: Any) -> None:
        for shape in map(np.shape, jax.tree.leaves(part)):
            for name, size in zip(spec, (*shape, *[None] * len(spec))):
                if name is not None and sizes.setdefault(name, size) != size:
                    wanted = f"{spec} wants {sizes[name]} rows"
                    raise ValueError(f"{wanted}, but got the shape {shape}")

    jax.tree.map(count, specs, rows)
    shape = [sizes[name] or 0 for name in axis_name]
    everyone = _of_one_process(devices or jax.devices())
    given = devices or everyone[: math.prod(shape)]
    if len(given) != math.prod(shape):
        raise ValueError(f"{shape} rows, but {len(given)} devices")
    return jax.sharding.Mesh(np.array(given).reshape(shape), axis_name)
