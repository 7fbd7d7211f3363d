"""The inputs of a call of the other program, in the layout of this program.

After the first difference, the inputs of later calls differ too, and their outputs say little about
the function itself. So such a call is run again on the inputs of the other program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardlift.capture import values
from shardlift.capture.layouts import (
    Array,
    LayoutChange,
    from_root,
    layout_of,
    numpy_dtype,
    root,
    same_arrays,
)
from shardlift.capture.pairs import best_match
from shardlift.capture.schema import Capture, Form, Part, Sample, Values
from shardlift.recording.calls import FlatCall
from shardlift.recording.site_records import SiteRecord

REPLAYS = 8  # calls per site


class ReferenceRun:
    """The capture of the other program, whose inputs are replayed."""

    def __init__(self, capture: Capture, arrays: Mapping[str, values.Bytes]) -> None:
        self.capture, self.arrays = capture, arrays
        self.done: Counter[int] = Counter()

    def inputs(
        self, site: SiteRecord, number: int, call: FlatCall, own: Values
    ) -> list[Any] | None:
        """The leaves of its call ``number``; None if they are equal or not available."""
        index = best_match(site.key.function, site.names, self.capture.sites)
        if index is None or self.done[site.index] >= REPLAYS:
            return None
        theirs = self.capture.sites[index]
        sample = next((one for one in theirs.samples if one.call == number), None)
        if (
            sample is None
            or sample.inputs is None
            or same_arrays(sample.inputs.digests, own.digests)
        ):
            return None
        forms = theirs.forms[sample.inputs.forms]
        if len(forms) != len(call.leaves):
            site.unseen["replays: the two functions take different arguments"] = None
            return None
        leaves = [
            self._leaf(index, sample, k, form, leaf)
            for k, (form, leaf) in enumerate(zip(forms, call.leaves, strict=True))
        ]
        if any(leaf is None for leaf in leaves):
            site.unseen["replays of calls whose inputs were not kept or do not fit"] = None
            return None
        self.done[site.index] += 1
        return leaves

    def _leaf(self, index: int, sample: Sample, number: int, form: Form, leaf: Any) -> Any:
        bits = self.arrays.get(values.name_of(index, sample.call, Part.INPUTS, number))
        dtype = leaf.dtype if isinstance(leaf, jax.Array) else np.asarray(leaf).dtype
        if bits is None or str(dtype) != form.dtype:
            return None
        least = bits.view(numpy_dtype(form.dtype))
        array = fit_shape(from_root(least, form.shape, form.axis), form, _data_shape(leaf))
        return None if array is None else place_like(array, leaf)


def fit_shape(array: Array, form: Form, shape: tuple[int, ...]) -> Array | None:
    """The array in the layout of another shape; None if that is impossible."""
    kind = layout_of(array.shape, shape, (form.axis, None))
    if kind is None:
        return None
    if kind in (LayoutChange.SAME, LayoutChange.JOINED):
        return array.reshape(shape)
    if array.ndim > len(shape):
        axis = form.axis or 0
        row: Array = np.moveaxis(array, axis, 0)[0]
        copies = root(array, axis).size <= row.size
        return row if copies and row.shape == shape else None
    return np.broadcast_to(array, shape) if array.shape == shape[1:] else None


def _data_shape(leaf: Any) -> tuple[int, ...]:
    if _is_key(leaf):
        one = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)  # the array may have been donated
        return jax.eval_shape(jax.random.key_data, one).shape
    return leaf.shape if isinstance(leaf, jax.Array) else np.shape(leaf)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def place_like(array: Array, leaf: Any) -> Any:
    """Place an array like ``leaf``, which may have been deleted."""
    if not isinstance(leaf, jax.Array):
        return np.array(array)
    if _is_key(leaf):
        kind = str(leaf.dtype).removeprefix("key<").removesuffix(">")
        impl = {"fry": "threefry2x32", "rbg": "rbg", "urbg": "unsafe_rbg"}.get(kind, kind)
        made = jax.random.wrap_key_data(jnp.asarray(array), impl=impl)
    else:
        made = jnp.asarray(array)
    # An array that is not committed to its device can be combined with arrays on any device.
    return jax.device_put(made, leaf.sharding) if getattr(leaf, "committed", True) else made
