"""`spmd_map` for projects that map over the first axis of all arguments."""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def spmd_map(
    fun: Callable[..., Any],
    axis_name: Hashable = "_devices",
    *,
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """Map `fun` over the first axis of its arguments, one row per device."""
    spec = jax.P(axis_name)

    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if jax.process_count() > 1:
            raise RuntimeError("written for one process, not for several")
        shapes = map(jnp.shape, jax.tree.leaves((args, kwargs)))
        count = max(shape[0] for shape in shapes if shape)
        mesh = jax.sharding.Mesh(jax.devices()[:count], (axis_name,))

        @jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        def on_device(*block: Any) -> Any:
            row, named = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
            out = fun(*row, **named)
            return jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)

        return on_device(args, kwargs)

    return jax.jit(
        mapped,
        donate_argnums=donate_argnums,
        donate_argnames=(),
    )
