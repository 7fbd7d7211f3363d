"""`spmd_map` for projects that map over the first axis of all arguments."""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def spmd_map(
    fun: Callable[..., Any],
    axis_name: Hashable | None = None,
    *,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[jax.Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """Map `fun` over the first axis of its arguments, one row per device."""
    name = "_devices" if axis_name is None else axis_name
    static = jax.tree.leaves(static_broadcasted_argnums)

    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        given = args  # with the static ones
        args = tuple(None if k in static else x for k, x in enumerate(args))
        shapes = map(jnp.shape, jax.tree.leaves((args, kwargs)))
        count = axis_size or max(shape[0] for shape in shapes if shape)
        chosen, spec = devices or jax.devices(backend), jax.P(name)
        if any(d.process_index != jax.process_index() for d in chosen):
            raise RuntimeError("written for one process, not for several")
        mesh = jax.sharding.Mesh(chosen[:count], (name,))

        @jax.shard_map(
            mesh=mesh,
            in_specs=spec,
            out_specs=spec,
            check_vma=False,
        )
        def on_device(*block: Any) -> Any:
            row, named = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
            row = [given[k] if k in static else x for k, x in enumerate(row)]
            out = fun(*row, **named)
            return jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)

        return on_device(args, kwargs)

    return jax.jit(
        mapped,
        static_argnums=static,
        donate_argnums=donate_argnums,
        donate_argnames=(),
    )
