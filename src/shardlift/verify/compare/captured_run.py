"""A capture together with the arrays that were kept beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shardlift.capture.array_archive import Bytes, name_of
from shardlift.capture.files import CaptureError
from shardlift.capture.layouts import Array, from_root, numpy_dtype, same_arrays
from shardlift.capture.schema import ArrayForm, Capture, Part, Sample, Values


class CapturedRun(NamedTuple):
    """A capture and the values beside it."""

    capture: Capture
    arrays: Mapping[str, Bytes]

    def arrays_of(self, site: int, sample: Sample, part: Part) -> list[CapturedArray]:
        """The arrays of a part of a call; none if it was not recorded."""
        values: Values | None = getattr(sample, part)
        if values is None:
            return []
        pairs = zip(self.capture.sites[site].forms[values.forms], values.digests, strict=True)
        return [
            CapturedArray(self, name_of(site, sample.call, part, k), form, digest)
            for k, (form, digest) in enumerate(pairs)
        ]


@dataclass(frozen=True, eq=False)
class CapturedArray:
    """An array of a call."""

    run: CapturedRun
    name: str  # in the archive
    form: ArrayForm
    digest: str

    def values(self) -> Array | None:
        """Its values; None if they were not kept."""
        form, arrays = self.form, self.run.arrays
        if 0 in form.shape:
            return np.zeros(form.shape, numpy_dtype(form.dtype))
        if self.name not in arrays:
            return None
        try:
            smallest = arrays[self.name].view(numpy_dtype(form.dtype))
            return from_root(smallest, form.shape, form.axis)
        except (ValueError, IndexError) as error:
            raise CaptureError(f"the values of {self.name} are damaged: {error}") from None


ArrayPair = tuple[Array, Array]  # of the two programs
ArrayLists = tuple[list[CapturedArray], list[CapturedArray]]  # of the two programs


def forms_of(arrays: ArrayLists) -> tuple[list[ArrayForm], list[ArrayForm]]:
    """The forms of the arrays of two programs."""
    return [array.form for array in arrays[0]], [array.form for array in arrays[1]]


def same_values(before: Values | None, after: Values | None) -> bool:
    """Whether two parts of calls were recorded, and have the same arrays."""
    return before is not None and after is not None and same_arrays(before.digests, after.digests)
