"""Helpers of other libraries that read a pmap's outputs, as before 0.8."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import jax

from shardlift._legacy.indexing import first_row, row_buffers
from shardlift._legacy.modules import when_imported
from shardlift._legacy.patches import Patches
from shardlift.arrays.reads import is_concrete, observe_reads

__all__ = ["restore"]

Read = Callable[[jax.Array, str, int], None]


def restore(patches: Patches, read: Read | None, *, patch: bool) -> None:
    """Install them once their library is imported; call ``read`` for what they read."""

    def flax(module: types.ModuleType) -> None:
        stock = vars(module).get("unreplicate")
        if stock is not None:
            # flax 0.12 returns copies that are committed to the first device; x[0], as it was
            # before, is not, and can be combined with arrays on any device.
            first = _first_rows if patch else stock
            patches.set(module, "unreplicate", _report_reads(first, "unreplicate", read))
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
        patches.set(jax, "device_get", _report_reads(jax.device_get, "device_get", read))


def _first_rows(tree: Any) -> Any:
    """The first copy of each replicated leaf."""
    return jax.tree.map(_first_of, tree)


def _first_of(leaf: Any) -> Any:
    if getattr(leaf, "ndim", 1) == 0:
        return leaf
    return first_row(leaf) if is_concrete(leaf) else leaf[0]


def _report_reads(
    function: Callable[[Any], Any], how: str, read: Read | None
) -> Callable[[Any], Any]:
    if read is None:
        return function

    def tell(array: jax.Array, how: str, nbytes: int, _: float) -> None:
        if row_buffers(array) is not None:
            read(array, how, nbytes)

    return observe_reads(function, how, tell)
