"""Names that JAX kept but whose meaning it changed without an error, as they were.

What is certain to be right for every caller is always restored. What a library of today may rely on
is restored for the program's own calls only, and only if the program was written for a JAX before
the change.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AxisType

from shardlift import _compat
from shardlift._legacy.indexing import row_buffers, row_of_block
from shardlift._legacy.modules import when_imported
from shardlift._legacy.names import RANDOM_KEYS
from shardlift._legacy.patches import Patches, Uses
from shardlift._own_files import is_own
from shardlift.source.model import Version

_PARTITIONABLE = "jax_threefry_partitionable"
_INNER = ("jax", "jaxlib")  # wherever their files are


def restore(patches: Patches, uses: Uses, written_for: Version | None) -> None:
    """Restore the meanings of the JAX that the program was written for; None: of today's JAX."""
    if _compat.VERSION >= (0, 11):  # they are not initialised since
        _fill_with_zeros(patches, uses)
    gather = functools.partial(_restore_gather, patches, uses, written_for)
    when_imported("jax.experimental.multihost_utils", patches, gather)
    if written_for is None:
        return
    if written_for < (0, 4, 34):
        _restore_rows(patches, uses)
    if written_for < (0, 5):
        _restore_random_numbers(patches, uses)
    if written_for < (0, 9):  # the axes are Explicit by default since
        _restore_auto_axes(patches, uses)


def _fill_with_zeros(patches: Patches, uses: Uses) -> None:
    def replace(name: str, zeros: Callable[..., jax.Array]) -> None:
        @functools.wraps(getattr(jax.numpy, name))
        def filled(*args: Any, **options: Any) -> jax.Array:
            if _is_program():
                uses.note(f"jax.numpy.{name}")
            # The first argument of zeros_like has another name.
            first = [options.pop("prototype")] if "prototype" in options else []
            return zeros(*first, *args, **options)

        patches.set(jax.numpy, name, filled)

    replace("empty", jax.numpy.zeros)
    replace("empty_like", jax.numpy.zeros_like)


def _restore_gather(
    patches: Patches, uses: Uses, written_for: Version | None, module: types.ModuleType
) -> None:
    """``process_allgather``: whole arrays, and what one process gathers, are not stacked."""
    stock = module.process_allgather
    # Since 0.5 one process stacks its value, as several do.
    alone = written_for is not None and written_for < (0, 5)

    @functools.wraps(stock)
    def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
        as_it_is = alone and jax.process_count() == 1 and not tiled and _is_program()
        if as_it_is:
            uses.note("jax.experimental.multihost_utils.process_allgather")

        def gather(value: Any) -> Any:
            # Since 0.8 an array of all processes is refused unless `tiled`, which it was before.
            everywhere = isinstance(value, jax.Array) and not value.is_fully_addressable
            return stock(value, tiled=tiled or as_it_is or everywhere)

        return jax.tree.map(gather, in_tree)

    patches.set(module, "process_allgather", process_allgather)


class _RowShard(jax.Shard):
    """A shard of an output of pmap, without the leading axis of 1 that it has since 0.4.34."""

    @functools.cached_property
    def index(self) -> Any:
        rows, *rest = super().index
        return (rows.start or 0, *rest)


def _restore_rows(patches: Patches, uses: Uses) -> None:
    """``x.addressable_data(0)`` of an output of pmap is the row of a device."""
    array_type = _compat.array_type()
    if array_type is None:
        return
    stock_data, stock_shards = array_type.addressable_data, array_type.addressable_shards.fget

    def addressable_data(array: Any, index: int) -> jax.Array:
        block: jax.Array = stock_data(array, index)
        if row_buffers(array) is None or not _is_program():
            return block
        uses.note("jax.Array.addressable_data")
        return row_of_block(block)

    def addressable_shards(array: Any) -> Any:
        shards = stock_shards(array)
        if row_buffers(array) is None or not _is_program():
            return shards
        uses.note("jax.Array.addressable_shards")
        shape, sharding = array.shape, array.sharding
        return [_RowShard(s.device, sharding, shape, row_of_block(s.data)) for s in shards]

    patches.set(array_type, "addressable_data", addressable_data)
    patches.set(array_type, "addressable_shards", property(addressable_shards))


def _restore_random_numbers(patches: Patches, uses: Uses) -> None:
    """A key draws the numbers that it drew before 0.5, unless the user has chosen."""
    if _PARTITIONABLE.upper() in os.environ or not hasattr(jax.config, _PARTITIONABLE):
        return
    before = getattr(jax.config, _PARTITIONABLE)
    jax.config.update(_PARTITIONABLE, False)
    patches.on_undo(lambda: jax.config.update(_PARTITIONABLE, before))

    def noting(name: str, stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def make_key(*args: Any, **options: Any) -> Any:
            if not getattr(jax.config, _PARTITIONABLE) and _is_program():
                uses.note(name)
            return stock(*args, **options)

        return make_key

    for name in RANDOM_KEYS:
        key = name.rpartition(".")[2]
        patches.set(jax.random, key, noting(name, getattr(jax.random, key)))


def _restore_auto_axes(patches: Patches, uses: Uses) -> None:
    stock = jax.make_mesh

    @functools.wraps(stock)
    def make_mesh(*args: Any, **options: Any) -> Any:
        has_types = len(args) > 2 or options.get("axis_types") is not None
        if not has_types and _is_program():
            uses.note("jax.make_mesh")
            axes = args[1] if len(args) > 1 else options["axis_names"]
            count = 1 if isinstance(axes, str) else len(axes)
            options["axis_types"] = (AxisType.Auto,) * count
        return stock(*args, **options)

    patches.set(jax, "make_mesh", make_mesh)


def _is_program() -> bool:
    """Is the code that called the function which asks the program's own?"""
    frame = sys._getframe(2)
    root, file = frame.f_globals.get("__name__", "").partition(".")[0], frame.f_code.co_filename
    return root not in _INNER and is_own(file)
