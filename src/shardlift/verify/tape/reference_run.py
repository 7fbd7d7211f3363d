"""The inputs that the other program had in a call, in the layout of this one.

Once the two programs have drifted apart, comparing their outputs says little of the function
itself. So a call whose inputs differ is run once more on the inputs of the other program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardlift.capture import values
from shardlift.capture.schema import Capture, Form, Sample, Values
from shardlift.recording.calls import Apart
from shardlift.verify.compare.bits import numpy_dtype
from shardlift.verify.compare.layouts import Array, from_root, layout_of, root, same_arrays
from shardlift.verify.compare.leaves import nearly
from shardlift.verify.compare.pairs import best_match
from shardlift.verify.tape.host_arrays import Held
from shardlift.verify.tape.site_tape import SiteTape

REPLAYS = 8  # calls of a site


class Tutor:
    """The other program's capture."""

    def __init__(self, capture: Capture, arrays: Mapping[str, values.Bytes]) -> None:
        self.capture, self.arrays = capture, arrays
        self.done: Counter[int] = Counter()
        self.wrong: set[int] = set()

    def inputs(self, site: SiteTape, number: int, apart: Apart, own: Values) -> list[Any] | None:
        """The inputs for call ``number``; None: they are the same, or not to be had."""
        index = best_match(site.frozen(), self.capture.sites)
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
        if len(forms) != len(apart.leaves):
            site.unseen["replays: the two functions take different arguments"] = None
            return None
        found = [
            self._leaf(index, sample, k, form, leaf)
            for k, (form, leaf) in enumerate(zip(forms, apart.leaves, strict=True))
        ]
        if any(one is None for one in found):
            site.unseen["replays of calls whose inputs were not kept, or do not fit"] = None
            return None
        self.done[site.index] += 1
        return found

    def outputs(
        self, site: SiteTape, number: int, own: Values, got: Sequence[Held]
    ) -> tuple[str, ...] | None:
        """What call ``number`` gave there, if it was given the same and gave something else.

        Only once a site, and not if it is only rounded otherwise.
        """
        match = best_match(site.frozen(), self.capture.sites)
        places = range(len(self.capture.sites)) if match is None else [match]
        for index in places if site.index not in self.wrong else ():
            samples = self.capture.sites[index].samples
            theirs = next((one for one in samples if one.call == number), None)
            if theirs is None or theirs.inputs is None or theirs.outputs is None:
                continue
            if not same_arrays(theirs.inputs.digests, own.digests):
                continue
            wanted = theirs.outputs.digests
            same = same_arrays(wanted, [one.digest for one in got])
            if same or self._rounded(index, theirs, got):
                return None
            self.wrong.add(site.index)
            return wanted
        return None

    def _rounded(self, index: int, sample: Sample, got: Sequence[Held]) -> bool:
        """Whether all outputs are the other program's but for rounding."""
        assert sample.outputs is not None
        forms = self.capture.sites[index].forms[sample.outputs.forms]
        for k, (form, one) in enumerate(zip(forms, got, strict=False)):
            bits = self.arrays.get(values.name_of(index, sample.call, "outputs", k))
            if bits is None or one.array is None or form.dtype != one.form.dtype:
                return False
            least = bits.view(numpy_dtype(form.dtype))
            array = fitted(from_root(least, form.shape, form.axis), form, one.array.shape)
            if array is None or not (np.array_equal(array, one.array) or nearly(array, one.array)):
                return False
        return len(forms) == len(got)

    def _leaf(self, index: int, sample: Sample, number: int, form: Form, leaf: Any) -> Any:
        bits = self.arrays.get(values.name_of(index, sample.call, "inputs", number))
        dtype = leaf.dtype if isinstance(leaf, jax.Array) else np.asarray(leaf).dtype
        if bits is None or str(dtype) != form.dtype:
            return None
        least = bits.view(numpy_dtype(form.dtype))
        array = fitted(from_root(least, form.shape, form.axis), form, _data_shape(leaf))
        return None if array is None else placed(array, leaf)


def fitted(array: Array, form: Form, shape: tuple[int, ...]) -> Array | None:
    """An array in the layout of another shape; None where there is no such."""
    kind = layout_of(array.shape, shape)
    if kind is None:
        return None
    if kind in ("same", "joined"):
        return array.reshape(shape)
    if array.ndim > len(shape):
        axis = form.axis or 0
        row: Array = np.moveaxis(array, axis, 0)[0]
        copies = root(array, axis).size <= row.size
        return row if copies and row.shape == shape else None
    return np.broadcast_to(array, shape) if array.shape == shape[1:] else None


def _data_shape(leaf: Any) -> tuple[int, ...]:
    if _is_key(leaf):
        one = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)  # the array may be donated by now
        return jax.eval_shape(jax.random.key_data, one).shape
    return leaf.shape if isinstance(leaf, jax.Array) else np.shape(leaf)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def placed(array: Array, leaf: Any) -> Any:
    """An array as another one lies, which may be deleted by now."""
    if not isinstance(leaf, jax.Array):
        return np.array(array)
    if _is_key(leaf):
        kind = str(leaf.dtype).removeprefix("key<").removesuffix(">")
        impl = {"fry": "threefry2x32", "rbg": "rbg", "urbg": "unsafe_rbg"}.get(kind, kind)
        made = jax.random.wrap_key_data(jnp.asarray(array), impl=impl)
    else:
        made = jnp.asarray(array)
    # An array that is not committed to its device goes together with arrays on any.
    return jax.device_put(made, leaf.sharding) if getattr(leaf, "committed", True) else made
