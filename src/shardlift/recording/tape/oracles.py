"""What stands in for pmap in the program before.

==================  =====================================================================
``shardlift.pmap``  ours: what pmap was before JAX 0.8
``jax.pmap``        the one of the JAX that is installed
``vmap``            ``jax.vmap`` with an axis name, on one device: another way to the numbers
==================  =====================================================================
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from shardlift.mapping.call import with_static
from shardlift.recording.calls import PmapAdapter
from shardlift.recording.process import site_behind

Pmap = Callable[..., Any]


def choose(oracle: str, pmap: Pmap) -> Pmap:
    """The pmap to use, where ``pmap`` is what there is."""
    return vmapped if oracle == "vmap" else pmap


def vmapped(*args: Any, **kwargs: Any) -> Any:
    """The pmap of these arguments by ``jax.vmap``; devices and donation have no meaning in it.

    >>> vmapped(lambda x: x / jax.lax.psum(x, "i"), "i")(jnp.array([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    fun: Any = args[0] if args else kwargs.get("fun")
    site, _ = site_behind(None, args, kwargs)
    if site is None:
        return jax.pmap(*args, **kwargs)  # says what is wrong with them
    options, programs = site.options, {}

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        call = site.take_apart(args, kwargs)
        static = tuple(args[k] for k in options.static)
        key = (call.tree, tuple(call.axes), call.size, static)

        def row(leaves: list[Any]) -> Any:
            dynamic, named = jax.tree.unflatten(call.tree, leaves)
            return fun(*with_static(options, args, dynamic), **named)

        if key not in programs:
            name: Any = options.axis_name
            programs[key] = jax.jit(
                jax.vmap(row, (list(call.axes),), 0, axis_name=name, axis_size=call.size)
            )
        out = programs[key](call.leaves)
        axes = [axis for _, _, axis in PmapAdapter(site).outputs(out)]
        leaves, tree = jax.tree.flatten(out)
        rows = [_placed(x, axis) for x, axis in zip(leaves, axes, strict=True)]
        return jax.tree.unflatten(tree, rows)

    return call


def _placed(stacked: Any, axis: int | None) -> Any:
    return stacked[0] if axis is None else jnp.moveaxis(stacked, 0, axis)
