"""Helpers of other libraries that read a pmap's outputs, as they were before 0.8."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import jax

from shardlift._legacy.indexing import first_row, one_row_a_device
from shardlift._legacy.modules import when_imported
from shardlift._legacy.patches import Patches
from shardlift.arrays.reads import observe_reads

__all__ = ["restore"]

Read = Callable[[jax.Array, str, int], None]


def restore(patches: Patches, read: Read | None, *, patch: bool) -> None:
    """Put them in as soon as their library is there; tell ``read`` what they read."""

    def flax(module: types.ModuleType) -> None:
        stock = vars(module).get("unreplicate")
        if stock is not None:
            # flax 0.12 gives copies that are committed to the first device; x[0], as it was
            # before, is not, and goes together with arrays on any.
            first = _first_rows if patch else stock
            patches.set(module, "unreplicate", _read_by(first, "unreplicate", read))
        if patch and hasattr(module, "_pmap_device_order"):
            # Flax of 2022 asks the backend, which cannot say any more (0.12).
            patches.set(module, "_pmap_device_order", jax.local_devices)

    def flax_traces(module: types.ModuleType) -> None:
        # Flax of 2022 compares the levels of traces, which have none since 0.4.36; of later
        # JAX, flax itself asks nothing.
        if hasattr(module, "trace_level"):
            patches.set(module, "trace_level", lambda main: float("-inf"))  # noqa: ARG005
            patches.set(module, "check_trace_level", lambda base_level: None)  # noqa: ARG005

    when_imported("flax.jax_utils", patches, flax)
    if patch:
        when_imported("flax.core.tracers", patches, flax_traces)
    if read is not None:
        patches.set(jax, "device_get", _read_by(jax.device_get, "device_get", read))


def _first_rows(tree: Any) -> Any:
    """One copy of what was replicated: the first."""
    return jax.tree.map(_first_of, tree)


def _first_of(leaf: Any) -> Any:
    if getattr(leaf, "ndim", 1) == 0:
        return leaf
    return first_row(leaf) if _is_placed(leaf) else leaf[0]


def _read_by(function: Callable[[Any], Any], how: str, read: Read | None) -> Callable[[Any], Any]:
    if read is None:
        return function

    def tell(array: jax.Array, how: str, nbytes: int, _: float) -> None:
        if one_row_a_device(array) is not None:
            read(array, how, nbytes)

    return observe_reads(function, how, tell)


def _is_placed(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
