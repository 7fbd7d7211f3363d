"""Removed attributes of arrays, shardings, primitives: ``.device_buffers``, ``.device()``, …"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir
from jax.sharding import NamedSharding

from shardlift import _compat
from shardlift._legacy.indexing import row_buffers
from shardlift._legacy.patches import Patches, Uses
from shardlift._legacy.placeholders import placeholder


def restore(patches: Patches, uses: Uses) -> None:
    """Restore them; JAX removed them from arrays in 0.4.27, and from shardings in 0.10."""

    def device_buffers(array: Any) -> list[jax.Array]:
        """The buffers of this process; for an output of a pmap, its rows."""
        uses.note("jax.Array.device_buffers")
        where = row_buffers(array)
        if where is not None:
            return [array[k] for k in range(len(where))]
        return [shard.data for shard in array.addressable_shards]

    def device_buffer(array: Any) -> jax.Array:
        """The one buffer of an array on one device."""
        uses.note("jax.Array.device_buffer")
        if len(array.sharding.device_set) > 1:
            raise ValueError("device_buffer: the array is on several devices; use device_buffers")
        block: jax.Array = array.addressable_data(0)
        return block

    def device(array: Any) -> Any:
        """``x.device()`` where a program calls it; ``x.device`` is the device since 0.4.27."""
        placement, caller = stock(array), sys._getframe(1)
        if not _is_method_call(caller.f_code, caller.f_lasti):
            return placement
        uses.note("jax.Array.device()")
        return lambda: placement

    array_type = _compat.array_type()
    if array_type is not None:
        stock = array_type.device.fget
        patches.set(array_type, "device", property(device))
        patches.set(array_type, "device_buffers", property(device_buffers))
        patches.set(array_type, "device_buffer", property(device_buffer))
        methods = {"broadcast": lax.broadcast, "broadcast_in_dim": lax.broadcast_in_dim}  # 0.4.14
        for name, method in {**methods, "split": jax.numpy.split}.items():
            patches.set(array_type, name, method)
        for name in ("__float__", "__int__", "__complex__"):
            patches.set(array_type, name, _of_one_number(getattr(array_type, name), name, uses))
    # jax.ad was jax.interpreters.ad until 0.4.14; today it is a namespace with other names.
    for name, value in vars(ad).items():
        if hasattr(jax, "ad") and name[0] != "_" and not hasattr(jax.ad, name):
            patches.set(jax.ad, name, value)
    if hasattr(jax, "ad") and not hasattr(jax.ad, "zeros_like_p"):  # rules are registered for it
        patches.set(jax.ad, "zeros_like_p", placeholder("jax.ad.zeros_like_p"))
    if not hasattr(Primitive, "map_primitive"):  # since 0.10: none is
        patches.set(Primitive, "map_primitive", False)
    effects = type(getattr(mlir, "lowerable_effects", None))
    if hasattr(effects, "add_type"):  # a set of effects until 0.4.2, of their types since
        patches.set(effects, "add", lambda self, effect: self.add_type(type(effect)))
    patches.set(NamedSharding, "devices", property(lambda self: self.mesh.devices))


def _of_one_number(stock: Callable[[Any], Any], name: str, uses: Uses) -> Callable[[Any], Any]:
    """``float(x)`` of an array with axes and one number, as until 0.4.25."""

    def convert(array: Any) -> Any:
        if array.ndim and array.size == 1:
            uses.note(f"jax.Array.{name}")
            array = array.reshape(())
        return stock(array)

    return convert


# Devices themselves cannot be made callable: JAX (0.12) keeps weak references to callables, which a
# device does not support.
@functools.lru_cache(maxsize=4096)
def _is_method_call(code: types.CodeType, at: int) -> bool:
    """Does the instruction load an attribute in order to call it, as ``x.device()`` does?"""
    # Python 3.12 reports the end of the instruction once it has specialised it for a property.
    steps = [step for step in dis.get_instructions(code) if step.offset <= at]
    called = sys.version_info >= (3, 12) and bool((steps[-1].arg or 0) & 1) if steps else False
    name = steps[-1].opname if steps else ""
    return name == "LOAD_METHOD" or (name == "LOAD_ATTR" and called)
