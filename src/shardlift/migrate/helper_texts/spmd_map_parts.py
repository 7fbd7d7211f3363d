"""What `spmd_map` needs for some of its arguments; the function itself is in `templates`."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils


def _remember(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return what was made before for equal arguments, lists included."""

    @functools.lru_cache(maxsize=64)
    def made(args: Any, leaves: Any, tree: Any) -> Any:
        return make(*args, **jax.tree.unflatten(tree, leaves))

    @functools.wraps(make)
    def find(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten(kwargs)
        return made(args, tuple(leaves), tree)

    return find


def _at_axes(change: Callable[..., Any], specs: Any, tree: Any) -> Any:
    def at_axis(spec: jax.P, part: Any) -> Any:
        axes = tuple(k for k, name in enumerate(spec) if name is not None)
        return jax.tree.map(lambda x: change(x, axes), part)

    return jax.tree.map(at_axis, specs, tree)


def _placed(x: Any, sharding: jax.NamedSharding) -> Any:
    """Copy `x` to the devices of `sharding`, if it is on others."""
    if getattr(x, "sharding", sharding) == sharding:
        return x  # or no array: jit places it
    return jax.device_put(x, sharding)


def _joined(x: Any, sharding: jax.NamedSharding) -> Any:
    """Return the global array that `x` is the part of this process of."""
    whole = getattr(x, "_whole", x)
    if getattr(whole, "sharding", None) == sharding:
        return whole
    if not hasattr(x, "sharding") and not isinstance(x, np.ndarray):
        return x  # a number: jit puts it on every device
    mesh, spec = sharding.mesh, sharding.spec
    x = jax.device_put(x, jax.NamedSharding(mesh.local_mesh, spec))
    x._whole = multihost_utils.host_local_array_to_global_array(x, mesh, spec)
    return x._whole  # passed again, it need not be joined again
