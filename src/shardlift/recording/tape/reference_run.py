"""The inputs of a call of the other program, in the layout of this program.

After the first difference, the inputs of later calls differ too, and their outputs say little about
the function itself. So such a call is run again on the inputs of the other program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardlift.capture import array_archive, files
from shardlift.capture.layouts import (
    Array,
    LayoutChange,
    from_root,
    layout_of,
    numpy_dtype,
    root,
    same_arrays,
)
from shardlift.capture.schema import ArrayForm, Capture, Part, Sample, Values
from shardlift.capture.site_pairs import best_match
from shardlift.recording.mapped_calls import MappedCall
from shardlift.recording.site_records import SiteRecord

REPLAYS = 8  # calls per site
_KEY_KINDS = {"fry": "threefry2x32", "urbg": "unsafe_rbg"}  # by the names of their types


class ReferenceRun:
    """The capture of the other program, whose inputs are replayed."""

    def __init__(self, capture: Capture, arrays: Mapping[str, array_archive.Bytes]) -> None:
        self.capture, self.arrays = capture, arrays
        self.done: Counter[int] = Counter()
        # By the site of this program: the place of the other one, and its calls.
        self._partners: dict[int, tuple[int | None, dict[int, Sample]]] = {}

    def knows(self, site: SiteRecord) -> bool:
        """Whether it has a site of that name."""
        self._call(site, 0)
        return self._partners[site.index][0] is not None

    def may_replay(self, site: SiteRecord, number: int, own: Values) -> bool:
        """Whether its call ``number`` had other inputs, and few were run again so far."""
        _, sample = self._call(site, number)
        inputs = None if sample is None else sample.inputs
        return (
            self.done[site.index] < REPLAYS
            and inputs is not None
            and not same_arrays(inputs.digests, own.digests)
        )

    def differing(
        self, site: SiteRecord, number: int, part: Part, digests: Sequence[str]
    ) -> list[int]:
        """The arrays of one side of a call that its call ``number`` does not have."""
        _, sample = self._call(site, number)
        values = sample and (sample.inputs if part is Part.INPUTS else sample.outputs)
        if not values:
            return []
        known = {part for digest in values.digests for part in digest.split("/")}
        return [k for k, digest in enumerate(digests) if known.isdisjoint(digest.split("/"))]

    def has_collectives(self, site: SiteRecord, number: int) -> bool:
        """Whether the results of collectives in its call ``number`` are on tape."""
        _, sample = self._call(site, number)
        return sample is not None and sample.inside is not None and bool(sample.inside.digests)

    def _call(self, site: SiteRecord, number: int) -> tuple[int, Sample | None]:
        """The place of the same site in the other program, and its call ``number``."""
        if site.index not in self._partners:
            index = best_match(site.key.function, site.names, self.capture.sites)
            samples = () if index is None else self.capture.sites[index].samples
            calls = {sample.call: sample for sample in samples}
            self._partners[site.index] = index, calls
        index, calls = self._partners[site.index]
        return index or 0, calls.get(number)

    def inputs(self, site: SiteRecord, number: int, call: MappedCall) -> list[Any] | None:
        """The leaves of its call ``number``; None if they are not available."""
        index, sample = self._call(site, number)
        if sample is None or sample.inputs is None:
            return None
        forms = self.capture.sites[index].forms[sample.inputs.forms]
        if len(forms) != len(call.leaves):
            site.unseen["replays: the two functions take different arguments"] = None
            return None
        pairs = enumerate(zip(forms, call.leaves, strict=True))
        names = [array_archive.name_of(index, number, Part.INPUTS, k) for k in range(len(forms))]
        leaves = [self._leaf(names[k], form, leaf) for k, (form, leaf) in pairs]
        if any(leaf is None for leaf in leaves):
            site.unseen["replays of calls whose inputs were not kept or do not fit"] = None
            return None
        return leaves

    def _leaf(self, name: str, form: ArrayForm, leaf: Any) -> Any:
        bits = self.arrays.get(name)
        dtype = leaf.dtype if isinstance(leaf, jax.Array) else np.asarray(leaf).dtype
        if bits is None or str(dtype) != form.dtype:
            return None
        least = bits.view(numpy_dtype(form.dtype))
        array = fit_shape(from_root(least, form.shape, form.axis), form, _data_shape(leaf))
        return None if array is None else place_like(array, leaf)


def read_reference(path: str) -> ReferenceRun:
    """Read the capture of the other program, and the arrays beside it."""
    return ReferenceRun(files.read(path), array_archive.load(path))


def fit_shape(array: Array, form: ArrayForm, shape: tuple[int, ...]) -> Array | None:
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
    """The shape of a leaf on tape; the array may have been donated."""
    if _is_key(leaf):
        one = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
        return jax.eval_shape(jax.random.key_data, one).shape
    return np.shape(leaf)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def place_like(array: Array, leaf: Any) -> Any:
    """Place an array like ``leaf``, which may have been deleted."""
    if not isinstance(leaf, jax.Array):
        return np.array(array)
    made = jnp.asarray(array)
    if _is_key(leaf):
        kind = str(leaf.dtype).removeprefix("key<").removesuffix(">")
        made = jax.random.wrap_key_data(made, impl=_KEY_KINDS.get(kind, kind))
    # An array that is not committed to its device can be combined with arrays on any device.
    return jax.device_put(made, leaf.sharding) if getattr(leaf, "committed", True) else made
