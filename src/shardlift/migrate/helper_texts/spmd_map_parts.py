"""What `spmd_map` needs for some of its arguments; the function itself is in `templates`."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils


def _remember(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return what was made before for equal arguments, if they have a hash."""
    cached = functools.lru_cache(maxsize=64)(make)

    @functools.wraps(make)
    def find(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs.keys() - {"out_axes"}:  # which may have lists in it
            if isinstance(kwargs[name], list):
                kwargs[name] = tuple(kwargs[name])
        try:
            return cached(*args, **kwargs)
        except TypeError:  # a dict of axes has no hash
            return make(*args, **kwargs)

    return find


def _at_axes(change: Callable[..., Any], specs: Any, tree: Any) -> Any:
    def at_axis(spec: jax.P, part: Any) -> Any:
        axes = tuple(k for k, name in enumerate(spec) if name is not None)
        return jax.tree.map(lambda x: change(x, axes), part)

    return jax.tree.map(at_axis, specs, tree)


def _sizes(x: Any, axes: tuple[int, ...]) -> list[int]:
    return [x.shape[k] for k in axes]


def _placed(mesh: jax.sharding.Mesh, spec: jax.P, tree: Any) -> Any:
    """Copy what is on other devices to those of the mesh."""
    sharding = jax.NamedSharding(mesh, spec)

    def place(x: Any) -> Any:
        if hasattr(x, "sharding") and x.committed and x.sharding != sharding:
            return jax.device_put(x, sharding)
        return x

    return jax.tree.map(place, tree)


def _across_processes(mapped: Any, axis_name: Hashable) -> Callable[..., Any]:
    """Pass the rows that this process has, and return those that it gets."""
    spec = jax.P(axis_name)

    @functools.wraps(mapped)
    def call(*args: Any, **kwargs: Any) -> Any:
        if jax.process_count() == 1:
            return mapped(*args, **kwargs)
        devices = sorted(jax.devices(), key=lambda d: d.process_index)
        mesh = jax.sharding.Mesh(devices, (axis_name,))
        rows = jax.tree.map(lambda x: getattr(x, "_whole", x), (args, kwargs))
        args, kwargs = multihost_utils.host_local_array_to_global_array(
            rows, mesh, spec
        )
        out = mapped(*args, **kwargs)
        rows = multihost_utils.global_array_to_host_local_array(out, mesh, spec)
        # Passed again, they need not be made global again.
        jax.tree.map(lambda row, whole: setattr(row, "_whole", whole), rows, out)
        return rows

    return call


def _stitched(mesh: jax.sharding.Mesh, spec: jax.P, tree: Any) -> Any:
    """Make what this process has a part of global arrays."""
    sharding = jax.NamedSharding(mesh, spec)

    def stitch(x: Any) -> Any:
        whole = getattr(x, "_whole", x)
        if getattr(whole, "sharding", None) == sharding:
            return whole
        if not hasattr(x, "sharding") and not isinstance(x, np.ndarray):
            return x  # a number: jit puts it on every device
        x = jax.device_put(x, jax.NamedSharding(mesh.local_mesh, spec))
        whole = multihost_utils.host_local_array_to_global_array(x, mesh, spec)
        x._whole = whole  # passed again, it need not be stitched again
        return whole

    return jax.tree.map(stitch, tree)


def _own_rows(mesh: jax.sharding.Mesh, specs: Any, out: Any) -> Any:
    """What this process has of the outputs."""
    if not mesh.is_multi_process:
        return out
    rows = multihost_utils.global_array_to_host_local_array(out, mesh, specs)
    jax.tree.map(lambda row, whole: setattr(row, "_whole", whole), rows, out)
    return rows
