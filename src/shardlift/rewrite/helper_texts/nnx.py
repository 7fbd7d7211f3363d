"""`flax.nnx.pmap`, as `flax.nnx.jit` of `flax.nnx.shard_map`."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from .spmd_map_parts import _of_one_process, _remember


@_remember
def nnx_spmd_map(
    fun: Callable[..., Any] | None = None,
    *,
    axis_name: Hashable = "_devices",
) -> Any:
    """Run `fun` on several devices, each with its slice of the arguments.

    This is `nnx.jit` of `nnx.shard_map`. All arrays, those of modules, too,
    are sliced along their first axis.
    """
    if fun is None:
        return functools.partial(nnx_spmd_map, axis_name=axis_name)

    @nnx.jit
    @functools.wraps(fun)
    def mapped(*args: Any) -> Any:
        devices = _of_one_process(jax.devices())
        count = jax.tree.leaves(args)[0].shape[0]

        @nnx.shard_map(
            mesh=jax.sharding.Mesh(devices[:count], (axis_name,)),
            in_specs=jax.P(axis_name),
            out_specs=jax.P(axis_name),
            check_vma=False,
        )
        def on_device(*blocks: Any) -> Any:
            row = _in_modules(lambda x: jnp.squeeze(x, 0), blocks)
            expand = functools.partial(jnp.expand_dims, axis=0)
            return _in_modules(expand, (row, fun(*row)))[1]

        return on_device(*args)

    return mapped


def _in_modules(change: Callable[..., Any], tree: Any) -> Any:
    """Change every array of a tree, those of modules in place."""

    def is_object(x: Any) -> bool:
        return isinstance(x, (nnx.Pytree, nnx.Variable))

    leaves = jax.tree.leaves(tree, is_leaf=is_object)
    objects = [x for x in leaves if is_object(x)]
    nnx.update(objects, jax.tree.map(change, nnx.state(objects)))
    return jax.tree.map(lambda x: x if is_object(x) else change(x), tree, is_leaf=is_object)
