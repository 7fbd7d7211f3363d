"""The devices that a pmap runs on, and their order."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from shardlift import _compat
from shardlift.mapping.nesting import InnerAxes
from shardlift.mapping.pmap_options import PmapOptions


class DeviceRows(NamedTuple):
    """The devices of a pmap, and the number of rows over all processes."""

    devices: tuple[jax.Device, ...]
    rows: int


def choose_layout(options: PmapOptions, size: int, inner: InnerAxes) -> DeviceRows:
    """Choose the devices for ``size`` rows and nested axes ``inner``, or raise ValueError.

    In the local view ``size`` counts the rows of this process.
    """
    below = math.prod(n for _, n in inner)
    if options.devices is not None:
        _check_given(given_local_devices(options), size, size * below)
        layout = DeviceRows(options.devices, len(options.devices) // below)
    else:
        layout = _first_devices(options, size, inner, size * below)
    if options.axis_size is not None and options.axis_size != layout.rows:
        raise ValueError(
            f"Specified axis_size {options.axis_size} doesn't match received axis_size "
            f"{layout.rows}."
        )
    return layout


def given_local_devices(options: PmapOptions) -> tuple[jax.Device, ...]:
    """The devices given to ``pmap`` that take rows of this process; empty if none were given."""
    given = options.devices or ()
    if options.view == "global" or not spans_processes(given):
        return given
    me = jax.process_index(options.backend)
    return tuple(device for device in given if device.process_index == me)


def spans_processes(devices: Sequence[jax.Device]) -> bool:
    """Do these devices belong to more than one process?"""
    return len({device.process_index for device in devices}) > 1


def _first_devices(options: PmapOptions, size: int, inner: InnerAxes, total: int) -> DeviceRows:
    """The first devices of all, or as many of each process as this one uses."""
    processes = range(jax.process_count(options.backend))
    of_process = [jax.local_devices(process, options.backend) for process in processes]
    if len(processes) > 1 and options.view == "local":
        fewest = min(map(len, of_process))
        if total > fewest:
            raise ValueError(
                f"compiling computation that requires {total} logical devices in process "
                f"{jax.process_index(options.backend)}, but only {fewest} XLA devices are "
                f"available in each (num_replicas={total}). In a job of many processes, each "
                "process passes one row for each of its own devices."
            )
        devices = tuple(device for local in of_process for device in local[:total])
        return DeviceRows(devices, size * len(processes))
    available = [device for local in of_process for device in local]
    if total > len(available):
        rows = "" if not inner else f" ({size} rows times nested axes {dict(inner)})"
        raise ValueError(
            f"compiling computation that requires {total} logical devices, but only "
            f"{len(available)} XLA devices are available (num_replicas={total}){rows}. pmap runs "
            f"one row on each device: give at most {len(available)} rows, vmap the rest inside "
            "the function, or, to try it on a CPU, set "
            f"JAX_NUM_CPU_DEVICES={total} before JAX starts."
        )
    if len(processes) > 1 and total != len(available):
        raise ValueError(
            f'a pmap with view="global" over {total} rows needs devices= in a job of '
            f"{len(processes)} processes with {len(available)} devices: it is not clear which of "
            "them should take part."
        )
    return DeviceRows(tuple(available[:total]), size)


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
            "are rows, or leave it out to use the first ones."
        )


def make_mesh(layout: DeviceRows, label: str, inner: InnerAxes) -> Mesh:
    """A mesh with Auto axes, the pmap's own axis first, in the device order of the old pmap."""
    shape = (layout.rows, *(n for _, n in inner))
    return Mesh(np.array(layout.devices).reshape(shape), (label, *(name for name, _ in inner)))


def in_context_mesh() -> bool:
    """Has a mesh been set with ``jax.set_mesh``?"""
    return not jax.sharding.get_abstract_mesh().empty


def in_manual_context() -> bool:
    """Is the caller inside the body of a ``shard_map``?"""
    return AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types


@contextlib.contextmanager
def own_context(mesh: Mesh) -> Iterator[None]:
    """Let ``shard_map`` use ``mesh`` although ``jax.set_mesh`` may have set another one."""
    if not in_context_mesh():
        yield
    elif _compat.tracing():
        # JAX refuses this later and less clearly, or XLA crashes (0.10 to 0.12).
        context = jax.sharding.get_abstract_mesh()
        explicit = AxisType.Explicit in context.axis_types
        if explicit or context.size != mesh.size:
            why = "has Explicit axes" if explicit else f"has {context.size} devices"
            raise ValueError(
                f"a pmap over {dict(mesh.shape)} is traced (under jit, grad, vmap, scan or the "
                f"like) inside jax.set_mesh({context}), whose mesh {why}: the two cannot be part "
                "of one program. Call the pmapped function outside that transformation, leave "
                f"set_mesh for the call, or set a mesh of {mesh.size} devices with Auto axes."
            )
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            yield
    else:
        with jax.set_mesh(mesh):
            yield
