"""pmaps inside one another: `jax.shard_map` over a mesh of several axes, as one device sees it."""

import functools
import math
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def shard_map_per_device(f: Callable[..., Any], axis_name: tuple[Hashable, ...]) -> Any:
    """Map `f` over the leading axes of its arguments, one device per entry."""
    spec, axes = jax.P(*axis_name), tuple(range(len(axis_name)))

    @functools.wraps(f)
    def mapped(*args: Any) -> Any:
        if jax.process_count() > 1:
            raise RuntimeError("written for one process, not for several")
        shape = jnp.shape(jax.tree.leaves(args)[0])[: len(axes)]
        devices = np.array(jax.devices()[: math.prod(shape)]).reshape(shape)
        mesh = jax.sharding.Mesh(devices, axis_name)

        @jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        def on_device(*block: Any) -> Any:
            row = jax.tree.map(lambda x: jnp.squeeze(x, axes), block)
            return jax.tree.map(lambda x: jnp.expand_dims(x, axes), f(*row))

        return on_device(*args)

    return mapped
