"""`spmd_map` for projects that leave some arguments whole: `in_axes=(None, 0)`."""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def spmd_map(
    fun: Callable[..., Any],
    axis_name: Hashable = "_devices",
    *,
    in_axes: Any = 0,
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """Map `fun` over the first axis of arguments, unless `in_axes` is None."""

    @functools.cache
    def jitted(count: int, axes: tuple[int | None, ...]) -> Any:
        if jax.process_count() > 1:
            raise RuntimeError("written for one process, not for several")
        mesh = jax.sharding.Mesh(jax.devices()[:count], (axis_name,))
        specs = tuple(jax.P() if k is None else jax.P(axis_name) for k in axes)
        whole = jax.NamedSharding(mesh, jax.P())  # jit copies to all

        @functools.partial(
            jax.jit,
            in_shardings=tuple(whole if k is None else None for k in axes),
            donate_argnums=donate_argnums,
        )
        @jax.shard_map(mesh=mesh, in_specs=specs, out_specs=jax.P(axis_name), check_vma=False)
        def on_device(*block: Any) -> Any:
            *row, named = map(row_of, axes, block)
            out = fun(*row, **named)
            return jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)

        return on_device

    def row_of(k: int | None, x: Any) -> Any:
        return x if k is None else jax.tree.map(lambda y: jnp.squeeze(y, 0), x)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        axes = (*((0,) * len(args) if in_axes == 0 else in_axes), 0)
        first = jax.tree.leaves((args[axes.index(0) :], kwargs))[0]
        return jitted(jnp.shape(first)[0], axes)(*args, kwargs)

    return call
