"""`spmd_map` for projects that map over other axes, or leave some arguments whole."""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def spmd_map(
    fun: Callable[..., Any],
    axis_name: Hashable | None = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[jax.Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """Map `fun` over axes, given as for `jax.vmap`, one slice per device."""
    name = "_devices" if axis_name is None else axis_name
    static = jax.tree.leaves(static_broadcasted_argnums)
    if static and isinstance(in_axes, tuple):  # the last may have no axis
        in_axes += (None,) * (max(static) + 1 - len(in_axes))

    def spec(axis: int | None) -> jax.P:
        return jax.P() if axis is None else jax.P(*[None] * axis, name)

    specs = jax.tree.map(spec, (in_axes, 0), is_leaf=lambda x: x is None)
    out_specs = jax.tree.map(spec, out_axes, is_leaf=lambda x: x is None)

    def at_axes(f: Callable[..., Any], specs: Any, tree: Any) -> Any:
        def part(s: jax.P, x: Any) -> Any:
            return jax.tree.map(lambda y: f(y, len(s) - 1), x) if s else x

        return jax.tree.map(part, specs, tree)

    def mesh_for(*trees: Any) -> jax.sharding.Mesh:
        chosen, sizes = devices or jax.devices(backend), []
        if any(d.process_index != jax.process_index() for d in chosen):
            raise RuntimeError("written for one process, not for several")
        at_axes(lambda x, k: sizes.extend(jnp.shape(x)[k:][:1]), specs, trees)
        return jax.sharding.Mesh(chosen[: axis_size or max(sizes)], (name,))

    def mapped(*args: Any, **kwargs: Any) -> Any:
        given = args  # with the static ones
        args = tuple(None if k in static else x for k, x in enumerate(args))
        mesh = mesh_for(args, kwargs)

        @jax.shard_map(
            mesh=mesh,
            in_specs=specs,
            out_specs=out_specs,
            check_vma=False,
        )
        def on_device(*block: Any) -> Any:
            row, named = at_axes(jnp.squeeze, specs, block)
            row = [given[k] if k in static else x for k, x in enumerate(row)]
            return at_axes(jnp.expand_dims, out_specs, fun(*row, **named))

        return on_device(args, kwargs)

    jitted = jax.jit(
        functools.wraps(fun)(mapped),
        static_argnums=static,
        donate_argnums=donate_argnums,
        donate_argnames=(),
    )

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return jitted(*args, **kwargs)
        except ValueError as error:
            if "incompatible devices" not in str(error):
                raise
        given = args  # with the static ones
        args = tuple(None if k in static else x for k, x in enumerate(args))
        put = functools.partial(jax.NamedSharding, mesh_for(args, kwargs))
        args, kwargs = jax.device_put((args, kwargs), jax.tree.map(put, specs))
        args = [given[k] if k in static else x for k, x in enumerate(args)]
        return jitted(*args, **kwargs)

    call.lower = jitted.lower  # type: ignore[attr-defined]
    return functools.wraps(fun)(call)
