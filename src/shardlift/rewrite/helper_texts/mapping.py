"""pmaps inside one another: `jax.shard_map` over a mesh of several axes, as one device sees it."""

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def shard_map_per_device(
    f: Callable[..., Any],
    axis_name: tuple[Hashable, ...],
    in_specs: Any = None,
    out_specs: Any = None,
    *,
    devices: Sequence[jax.Device] | None = None,
) -> Any:
    """Map `f` over the axes that specs name; over the leading ones without."""
    in_specs = jax.P(*axis_name) if in_specs is None else in_specs
    out_specs = jax.P(*axis_name) if out_specs is None else out_specs

    def at_axes(change: Callable[..., Any], specs: Any, tree: Any) -> Any:
        def part(spec: jax.P, x: Any) -> Any:
            axes = tuple(k for k, name in enumerate(spec) if name)
            return jax.tree.map(lambda y: change(y, axes), x)

        return jax.tree.map(part, specs, tree)

    @functools.wraps(f)
    def mapped(*args: Any) -> Any:
        sizes = dict.fromkeys(axis_name, 0)

        def count(spec: jax.P, x: Any) -> None:
            for leaf in jax.tree.leaves(x):
                sizes.update(zip(spec, jnp.shape(leaf)))

        jax.tree.map(count, in_specs, args)
        shape = [sizes[name] for name in axis_name]
        chosen = np.array(devices or jax.devices())[: math.prod(shape)]
        if any(d.process_index != jax.process_index() for d in chosen):
            raise RuntimeError("written for one process, not for several")
        mesh = jax.sharding.Mesh(chosen.reshape(shape), axis_name)

        @jax.shard_map(
            mesh=mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            check_vma=False,
        )
        def on_device(*block: Any) -> Any:
            row = at_axes(jnp.squeeze, in_specs, block)
            return at_axes(jnp.expand_dims, out_specs, f(*row))

        return on_device(*args)

    return mapped
