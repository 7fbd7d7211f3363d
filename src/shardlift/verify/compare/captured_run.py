"""A capture together with the arrays that were kept beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shardlift.capture.array_archive import Bytes, name_of
from shardlift.capture.files import CaptureError
from shardlift.capture.layouts import Array, from_root, numpy_dtype
from shardlift.capture.schema import ArrayForm, Capture, Part, Sample


class CapturedRun(NamedTuple):
    """A capture and the values beside it."""

    capture: Capture
    arrays: Mapping[str, Bytes]
    again: CapturedRun | None = None  # another run of the same program, which differs from it

    def array(
        self, site: int, sample: Sample, part: Part, leaf: int, form: ArrayForm
    ) -> Array | None:
        """The values of a leaf; None if they were not kept."""
        name = name_of(site, sample.call, part, leaf)
        if 0 in form.shape:
            return np.zeros(form.shape, numpy_dtype(form.dtype))
        if name not in self.arrays:
            return None
        try:
            smallest = self.arrays[name].view(numpy_dtype(form.dtype))
            return from_root(smallest, form.shape, form.axis)
        except (ValueError, IndexError) as error:
            raise CaptureError(f"the values of {name} are damaged: {error}") from None
