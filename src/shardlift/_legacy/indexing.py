"""``x[i]`` on an array with one row per device reads that row from its device.

Since 0.8 it is a program over all devices, some 680 microseconds on 8 of them; outputs of the old
pmap returned their i-th buffer. That buffer was not committed to its device (0.7.2), so that it
could be combined with any other array; so it is here.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding

from shardlift import _compat
from shardlift._legacy.modules import when_imported
from shardlift._legacy.patches import Patches
from shardlift.arrays.reads import is_concrete, observe_reads

Read = Callable[[jax.Array, str, int], None]
_MISSING: Any = object()
_known: dict[tuple[Any, Any], tuple[int, ...] | None] = {}


def fast_rows(patches: Patches, read: Read | None, *, patch: bool) -> None:
    """If ``patch``, read rows from their devices; call ``read`` for every row that is read."""
    array_type = _compat.array_type()
    if array_type is None or (read is None and not patch):
        return
    stock, stock_iter = array_type.__getitem__, array_type.__iter__
    row: Callable[..., Any] = _row if patch else stock

    def __getitem__(self: Any, idx: Any) -> Any:  # noqa: N807
        if type(idx) is int or isinstance(idx, np.integer):
            where = row_buffers(self)
            if where is not None and -len(where) <= idx < len(where):
                out = row(self, operator.index(idx) if patch else idx)
                if read is not None:
                    read(self, "index", self.nbytes // self.shape[0])
                return out
        return stock(self, idx)

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
        if patch and row_buffers(self) is not None:
            return (self[k] for k in range(len(self)))
        rows: Iterator[Any] = stock_iter(self)
        return rows

    patches.set(array_type, "__getitem__", __getitem__)
    patches.set(array_type, "__iter__", __iter__)


def row_buffers(array: Any) -> tuple[int, ...] | None:
    """For each row of ``array`` the number of its buffer; None if a buffer is not one row."""
    sharding = array.sharding
    if not isinstance(sharding, NamedSharding):
        return None
    key = (sharding, array.shape)
    where = _known.get(key, _MISSING)
    if where is _MISSING:
        if len(_known) > 10_000:
            _known.clear()
        where = _known[key] = _find_rows(*key)
    return where


def _find_rows(sharding: NamedSharding, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    if not shape or not sharding.is_fully_addressable:
        return None
    explicit = AxisType.Explicit in sharding.mesh.axis_types  # the row's type must name the mesh
    devices = list(sharding.mesh.devices.flat)
    if explicit or len(devices) != shape[0] or not sharding.spec or sharding.spec[0] is None:
        return None
    if sharding.shard_shape(shape) != (1, *shape[1:]):
        return None
    places = sharding.addressable_devices_indices_map(shape)
    at = {(place[0].start or 0): device for device, place in places.items() if place}
    return tuple(devices.index(at[k]) for k in range(shape[0]))


def _row(array: Any, index: int) -> Any:
    where = row_buffers(array)
    assert where is not None
    return _compat.uncommit(row_of_block(array.addressable_data(where[index])))


def row_of_block(block: jax.Array) -> jax.Array:
    """The one row of a device's block, on that device."""
    if not _compat.tracing():
        return _first(block)
    # As in 0.7.2: a constant, even under a transformation.
    with jax.ensure_compile_time_eval():
        return _first(block)


@jax.jit
def _first(block: jax.Array) -> jax.Array:
    return lax.squeeze(block, (0,))


# ---- helpers of libraries that read the outputs of a pmap, as before 0.8


def restore_library_reads(patches: Patches, read: Read | None, *, patch: bool) -> None:
    """Install them once their library is imported; call ``read`` for what they read."""

    def flax(module: types.ModuleType) -> None:
        stock = vars(module).get("unreplicate")
        if stock is not None:
            # flax 0.12 returns copies that are committed to the first device; x[0], as it was
            # before, is not, and can be combined with arrays on any device.
            first = _first_rows if patch else stock
            patches.set(module, "unreplicate", _report_trees(first, "unreplicate", read))
        if patch and hasattr(module, "_pmap_device_order"):
            # Flax of 2022 asks the backend, which has no such method any more (0.12).
            patches.set(module, "_pmap_device_order", jax.local_devices)

    def flax_traces(module: types.ModuleType) -> None:
        # Flax of 2022 compares the levels of traces, which have none since 0.4.36; newer flax
        # does not.
        if hasattr(module, "trace_level"):
            patches.set(module, "trace_level", lambda main: float("-inf"))  # noqa: ARG005
            patches.set(module, "check_trace_level", lambda base_level: None)  # noqa: ARG005

    when_imported("flax.jax_utils", patches, flax)
    if patch:
        when_imported("flax.core.tracers", patches, flax_traces)
    if read is not None:
        patches.set(jax, "device_get", _report_trees(jax.device_get, "device_get", read))


def _first_rows(tree: Any) -> Any:
    """The first copy of each replicated leaf."""

    def first(leaf: Any) -> Any:
        if getattr(leaf, "ndim", 1) == 0:
            return leaf
        is_row = is_concrete(leaf) and row_buffers(leaf) is not None
        return _row(leaf, 0) if is_row else leaf[0]  # the first is not reported as a read

    return jax.tree.map(first, tree)


def _report_trees(
    function: Callable[[Any], Any], how: str, read: Read | None
) -> Callable[[Any], Any]:
    if read is None:
        return function

    def tell(array: jax.Array, how: str, nbytes: int, _: float) -> None:
        if row_buffers(array) is not None:
            read(array, how, nbytes)

    return observe_reads(function, how, tell)
