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
        if jax.process_count() == 1 or only_mine(mapped.devices):
            return jitted(*args, **kwargs)
        numbers, rows, specs = mapped.rows_of(args, kwargs)
        mesh = mapped.mesh_for(global_rows(count_rows(specs, rows)))
        rows, named = multihost_utils.host_local_array_to_global_array(rows, mesh, specs)
        out = jitted(*replace_at(args, numbers, rows), **named)
        return multihost_utils.global_array_to_host_local_array(out, mesh, mapped.out_specs)

    def lower(*args, **kwargs):
        if jax.process_count() > 1 and not only_mine(mapped.devices):
            raise NotImplementedError("lower what is given to host_local, with global arrays")
        return jitted.lower(*args, **kwargs)

    call.lower = lower
    return call


def only_mine(devices):
    """Whether devices were given, and all of them belong to this process."""
    me = jax.process_index()
    return devices is not None and all(device.process_index == me for device in devices)


def global_rows(sizes):
    """The rows of all processes, from those of this one: the first axis spans them."""
    first = next(iter(sizes))
    return {**sizes, first: sizes[first] * jax.process_count()}


def host_local_jit_per_device(f, *args, **kwargs):
    """`host_local` of `jit_per_device`."""
    return host_local(jit_per_device(f, *args, **kwargs))
