"""Which devices a pmap runs on, and in which order."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from shardlift import _compat
from shardlift.mapping.nesting import InnerAxes
from shardlift.mapping.options import Options


def choose_devices(options: Options, size: int, inner: InnerAxes) -> tuple[jax.Device, ...]:
    """The devices of a pmap over ``size`` rows with nested axes ``inner``, or a clear refusal."""
    total = size * math.prod(n for _, n in inner)
    if options.devices is not None:
        _check_given(options.devices, size, total)
        return options.devices
    found = jax.devices(options.backend)
    if total > len(found):
        rows = "" if not inner else f" ({size} rows times nested axes {dict(inner)})"
        raise ValueError(
            f"compiling computation that requires {total} logical devices, but only {len(found)} "
            f"XLA devices are available (num_replicas={total}){rows}. pmap runs one row on each "
            f"device: give at most {len(found)} rows, vmap the rest inside the function, or, to "
            f"try it on a CPU, set JAX_NUM_CPU_DEVICES={total} before JAX starts."
        )
    return tuple(found[:total])


def _check_given(devices: tuple[jax.Device, ...], size: int, total: int) -> None:
    names = ", ".join(map(str, devices))
    if total > size and total > len(devices):
        raise ValueError(
            f"pmapped function requires {total} local devices to run due to nested pmapped or "
            f"other parallel functions, but only {len(devices)} are available.\n(outer axis size: "
            f"{size}, local devices available to pmap: {names})"
        )
    if total != len(devices):
        raise ValueError(
            "Leading axis size of input to pmapped function must equal the number of local "
            f"devices passed to pmap. Got axis_size={total}, num_local_devices={len(devices)}.\n"
            f"(Local devices available to pmap: {names})\nGive devices= as many devices as there "
            "are rows, or leave it out: pmap then takes the first ones."
        )


def make_mesh(devices: tuple[jax.Device, ...], label: str, size: int, inner: InnerAxes) -> Mesh:
    """A mesh with Auto axes, the pmap's own axis first, in the device order of the old pmap."""
    shape = (size, *(n for _, n in inner))
    return Mesh(np.array(devices).reshape(shape), (label, *(name for name, _ in inner)))


def in_context_mesh() -> bool:
    """Is a mesh set with ``jax.set_mesh``?"""
    return not jax.sharding.get_abstract_mesh().empty


@contextlib.contextmanager
def own_context(mesh: Mesh) -> Iterator[None]:
    """Let ``shard_map`` use ``mesh`` although ``jax.set_mesh`` may have set another one."""
    if not in_context_mesh():
        yield
    elif _compat.tracing():
        _check_traced_context(mesh)
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            yield
    else:
        with jax.set_mesh(mesh):
            yield


def _check_traced_context(mesh: Mesh) -> None:
    """Refuse what JAX would refuse later and less clearly, or what stops XLA (0.10 to 0.12)."""
    context = jax.sharding.get_abstract_mesh()
    if AxisType.Manual in context.axis_types:
        raise ValueError(
            f"a pmap over {dict(mesh.shape)} is called inside a shard_map over "
            f"{dict(context.shape)}. A pmap can only be called inside another "
            "shardlift.pmap, which makes room for it on its mesh. Inside a shard_map, use "
            "jax.vmap with the same axis_name, or give the shard_map a mesh with both axes."
        )
    explicit = AxisType.Explicit in context.axis_types
    if explicit or context.size != mesh.size:
        why = "has Explicit axes" if explicit else f"has {context.size} devices"
        raise ValueError(
            f"a pmap over {dict(mesh.shape)} is traced (under jit, grad, vmap, scan or the like) "
            f"inside jax.set_mesh({context}), whose mesh {why}: the two cannot be part of one "
            "program. Call the pmapped function outside of that transformation, leave set_mesh "
            f"for it, or set a mesh of {mesh.size} devices with Auto axes."
        )
