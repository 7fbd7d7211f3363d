"""`equinox.filter_pmap`, as `equinox.filter_jit` of `jax.shard_map`."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .spmd_map_parts import _of_one_process, _remember


@_remember
def filter_spmd_map(
    fun: Callable[..., Any] | None = None,
    *,
    axis_name: Hashable = "_devices",
) -> Any:
    """Run `fun` on several devices, each with its slice of the arrays.

    This is `eqx.filter_jit` of `jax.shard_map`. Every array is sliced along
    its first axis; what is not an array is the same on every device.
    """
    if fun is None:
        return functools.partial(filter_spmd_map, axis_name=axis_name)

    @eqx.filter_jit
    @functools.wraps(fun)
    def mapped(*args: Any) -> Any:
        arrays, static = eqx.partition(args, eqx.is_array)
        devices = _of_one_process(jax.devices())
        count = jax.tree.leaves(arrays)[0].shape[0]
        others = []  # what is returned and is not an array

        @jax.shard_map(
            mesh=jax.sharding.Mesh(devices[:count], (axis_name,)),
            in_specs=jax.P(axis_name),
            out_specs=jax.P(axis_name),
            check_vma=False,
        )
        def on_device(block: Any) -> Any:
            row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
            out = fun(*eqx.combine(row, static))
            out, other = eqx.partition(out, eqx.is_array)
            others.append(other)
            return jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)

        out = on_device(arrays)
        return eqx.combine(out, others[-1])

    return mapped
