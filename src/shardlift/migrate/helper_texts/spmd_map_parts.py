"""What `spmd_map` needs for some of its arguments; the function itself is in `templates`."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np


def _remember(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return what was made before for equal arguments, if they have a hash."""
    cached = functools.lru_cache(maxsize=64)(make)

    @functools.wraps(make)
    def find(*args: Any, **kwargs: Any) -> Any:
        try:
            return cached(*args, **kwargs)
        except TypeError:  # a list of devices or a dict of axes has no hash
            return make(*args, **kwargs)

    return find


def _specs(axes: Any, axis_name: Hashable) -> Any:
    def spec(axis: int | None) -> jax.P:
        return jax.P() if axis is None else jax.P(*[None] * axis, axis_name)

    return jax.tree.map(spec, axes, is_leaf=lambda axis: axis is None)


def _at_axes(change: Callable[..., Any], specs: Any, tree: Any) -> Any:
    def at_axis(spec: jax.P, part: Any) -> Any:
        axes = tuple(k for k, name in enumerate(spec) if name is not None)
        return jax.tree.map(lambda x: change(x, axes), part)

    return jax.tree.map(at_axis, specs, tree)


def _size(spec: jax.P, tree: Any) -> int | None:
    """The number of slices; None where there are none."""
    shapes = map(np.shape, jax.tree.leaves(tree))
    sizes = (shape[len(spec) - 1] for shape in shapes if shape and len(spec))
    return next(sizes, None)


def _copy_unmapped(
    jitted: Callable[..., Any],
    in_specs: Any,
    mesh_for: Callable[..., jax.sharding.Mesh],
) -> Callable[..., Any]:
    """Copy what is not sliced to all devices, if it is on others."""

    @functools.wraps(jitted)
    def copying(*args: Any, **kwargs: Any) -> Any:
        everywhere = jax.NamedSharding(mesh_for(args, kwargs), jax.P())

        def copy(x: Any) -> Any:
            if isinstance(x, jax.core.Tracer) or not isinstance(x, jax.Array):
                return x
            is_there = not x.committed or x.sharding == everywhere
            return x if is_there else jax.device_put(x, everywhere)

        def of_part(spec: jax.P, part: Any) -> Any:
            return part if len(spec) else jax.tree.map(copy, part)

        args, kwargs = jax.tree.map(of_part, in_specs, (args, kwargs))
        return jitted(*args, **kwargs)

    return copying


def _host_local(
    call: Callable[..., Any],
    in_specs: Any,
    mesh_for: Callable[..., jax.sharding.Mesh],
) -> Callable[..., Any]:
    """Stitch the slices of this process into global arrays, and back."""

    @functools.wraps(call)
    def stitching(*args: Any, **kwargs: Any) -> Any:
        mesh = mesh_for(args, kwargs)
        local = mesh.local_mesh
        if not mesh.is_multi_process:
            return call(*args, **kwargs)

        def stitch(spec: jax.P, part: Any) -> Any:
            return jax.tree.map(_mover(local, mesh, spec), part)

        def own_part(x: jax.Array) -> Any:
            return _mover(mesh, local, x.sharding.spec)(x)

        args, kwargs = jax.tree.map(stitch, in_specs, (args, kwargs))
        return jax.tree.map(own_part, call(*args, **kwargs))

    return stitching


@functools.cache
def _mover(
    old: jax.sharding.Mesh,
    new: jax.sharding.Mesh,
    spec: jax.P,
) -> Callable[[Any], Any]:
    """Make an array on more, or fewer, processes of the blocks of this one."""
    before, after = jax.NamedSharding(old, spec), jax.NamedSharding(new, spec)

    def move(x: Any) -> Any:
        if not isinstance(x, (jax.Array, np.ndarray)):
            return x  # a number: jit puts it on every device
        if getattr(x, "sharding", None) != before:
            x = jax.device_put(x, before)
        shape = list(x.shape)
        if len(spec):
            shape[len(spec) - 1] = shape[len(spec) - 1] // old.size * new.size
        blocks = [shard.data for shard in x.addressable_shards]
        make = jax.make_array_from_single_device_arrays
        return make(tuple(shape), after, blocks)

    return move
