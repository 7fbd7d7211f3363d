"""Many processes: each calls with its own rows, and gets its own rows back."""

import functools

import jax
from jax.experimental import multihost_utils

from .mapping import count_rows, replace_at
from .pmap_options import jit_per_device


def host_local(jitted):
    """A jitted `shard_map_per_device` that each process calls with the rows of its own devices.

    They are stitched into global arrays on the way in, and it gets back its own part.
    """
    mapped = jitted.__wrapped__

    @functools.wraps(jitted)
    def call(*args, **kwargs):
        if jax.process_count() == 1:
            return jitted(*args, **kwargs)
        numbers, rows, specs = mapped.rows_of(args, kwargs)
        mesh = mapped.mesh_for(global_rows(count_rows(specs, rows)))
        rows, named = multihost_utils.host_local_array_to_global_array(rows, mesh, specs)
        out = jitted(*replace_at(args, numbers, rows), **named)
        return multihost_utils.global_array_to_host_local_array(out, mesh, mapped.out_specs)

    call.lower = jitted.lower
    return call


def global_rows(sizes):
    """The rows of all processes, from those of this one: the first axis spans them."""
    first = next(iter(sizes))
    return {**sizes, first: sizes[first] * jax.process_count()}


def host_local_jit_per_device(f, *args, **kwargs):
    """`host_local` of `jit_per_device`."""
    return host_local(jit_per_device(f, *args, **kwargs))
