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
from jax.sharding import NamedSharding

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
from shardlift.capture.leaf_pairs import pair_leaves
from shardlift.capture.schema import ArrayForm, Capture, Part, Sample, Values
from shardlift.capture.site_pairs import best_match
from shardlift.recording.mapped_calls import MappedCall
from shardlift.recording.site_records import SiteRecord

REPLAYS = 8  # calls per site


class ReferenceRun:
    """The capture of the other program, whose inputs are replayed."""

    def __init__(self, capture: Capture, arrays: Mapping[str, array_archive.Bytes]) -> None:
        self.capture, self.arrays = capture, arrays
        self.done: Counter[int] = Counter()
        # By the site of this program: the place of the other one, and its calls.
        self._partners: dict[int, tuple[int | None, dict[int, Sample]]] = {}

    def may_replay(self, site: SiteRecord) -> bool:
        """Whether fewer calls of a site were run again than may be."""
        return self.done[site.index] < REPLAYS

    def count(self, site: SiteRecord) -> None:
        """A call of the site was run again."""
        self.done[site.index] += 1

    def knows(self, site: SiteRecord) -> bool:
        """Whether it has a site of that name."""
        self._call(site, 0)
        return self._partners[site.index][0] is not None

    def differs(self, site: SiteRecord, number: int, own: Values) -> bool:
        """Whether its call ``number`` had other inputs."""
        _, sample = self._call(site, number)
        return (
            sample is not None
            and sample.inputs is not None
            and not same_arrays(sample.inputs.digests, own.digests)
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
        in_order = range(len(forms))
        leaves = self._leaves(index, sample, in_order, call)
        if any(leaf is None for leaf in leaves):  # in another order, perhaps
            pairs = pair_leaves(forms, [_form(*row) for row in call.rows]).pairs
            places = {j: i for i, j in pairs}
            leaves = self._leaves(index, sample, [places[j] for j in in_order], call)
        if any(leaf is None for leaf in leaves):
            site.unseen["replays of calls whose inputs were not kept or do not fit"] = None
            return None
        return leaves

    def _leaves(
        self, index: int, sample: Sample, places: Sequence[int], call: MappedCall
    ) -> list[Any]:
        assert sample.inputs is not None
        forms = self.capture.sites[index].forms[sample.inputs.forms]
        pairs = zip(places, call.leaves, strict=True)
        return [self._leaf(index, sample, k, forms[k], leaf) for k, leaf in pairs]

    def _leaf(self, index: int, sample: Sample, number: int, form: ArrayForm, leaf: Any) -> Any:
        bits = self.arrays.get(array_archive.name_of(index, sample.call, Part.INPUTS, number))
        dtype = leaf.dtype if isinstance(leaf, jax.Array) else np.asarray(leaf).dtype
        if bits is None or str(dtype) != form.dtype:
            return None
        least = bits.view(numpy_dtype(form.dtype))
        array = fit_shape(from_root(least, form.shape, form.axis), form, _data_shape(leaf))
        return None if array is None else place_like(array, leaf)


def _form(path: str, leaf: Any, axis: int | None) -> ArrayForm:
    dtype = leaf.dtype if isinstance(leaf, jax.Array) else np.asarray(leaf).dtype
    return ArrayForm(path, str(dtype), _data_shape(leaf), axis)


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
    """The shape of a leaf on tape: for a global array, of the part of this process."""
    if not isinstance(leaf, jax.Array):
        return np.shape(leaf)
    shape = _own_shape(leaf)
    if _is_key(leaf):
        one = jax.ShapeDtypeStruct(shape, leaf.dtype)  # the array may have been donated
        return jax.eval_shape(jax.random.key_data, one).shape
    return shape


def _own_shape(leaf: jax.Array) -> tuple[int, ...]:
    sharding = leaf.sharding
    if sharding.is_fully_addressable:
        return leaf.shape
    places = sharding.addressable_devices_indices_map(leaf.shape).values()
    starts = [{place[k].start or 0 for place in places if place} for k in range(leaf.ndim)]
    block = sharding.shard_shape(leaf.shape)
    return tuple(len(begin) * size for begin, size in zip(starts, block, strict=True))


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def place_like(array: Array, leaf: Any) -> Any:
    """Place an array like ``leaf``, which may have been deleted."""
    if not isinstance(leaf, jax.Array):
        return np.array(array)
    if not leaf.sharding.is_fully_addressable:
        return _place_own_part(array, leaf)
    if _is_key(leaf):
        made = jax.random.wrap_key_data(jnp.asarray(array), impl=_key_kind(leaf))
    else:
        made = jnp.asarray(array)
    # An array that is not committed to its device can be combined with arrays on any device.
    return jax.device_put(made, leaf.sharding) if getattr(leaf, "committed", True) else made


def _key_kind(leaf: jax.Array) -> str:
    kind = str(leaf.dtype).removeprefix("key<").removesuffix(">")
    return {"fry": "threefry2x32", "rbg": "rbg", "urbg": "unsafe_rbg"}.get(kind, kind)


def _place_own_part(array: Array, leaf: jax.Array) -> Any:
    """Build the global array, shaped like ``leaf``, from this process's part ``array``."""
    if not _is_key(leaf):
        return jax.make_array_from_process_local_data(leaf.sharding, array, leaf.shape)
    if not isinstance(leaf.sharding, NamedSharding):
        return None
    shape = (*leaf.shape, array.shape[-1])
    data = jax.make_array_from_process_local_data(leaf.sharding, array, shape)
    return jax.random.wrap_key_data(data, impl=_key_kind(leaf))
