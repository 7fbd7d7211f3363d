"""Records the calls of a program, beside those of another: digests, and values up to some bytes."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax

from shardlift.capture import array_archive
from shardlift.capture.layouts import bits_of, digest_parts, root
from shardlift.capture.pairs import best_match
from shardlift.capture.schema import Capture, Part, Sample, Values
from shardlift.recording.mapped_calls import Rows, nbytes
from shardlift.recording.site_records import SiteRecord
from shardlift.recording.tape.children import Children
from shardlift.recording.tape.host_arrays import HostArray, Reader
from shardlift.recording.tape.options import TapeOptions


class ReferenceRun:
    """The other program: its calls with collectives on tape, and the arrays that it has."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._calls: dict[int, dict[int, Sample] | None] = {}  # by the site of this program

    def calls(self, site: SiteRecord) -> dict[int, Sample] | None:
        """The calls of the same site in the other program, by number; None if it has none."""
        if site.index not in self._calls:
            sites = self._capture.sites
            place = best_match(site.key.function, site.names, sites)
            calls = None if place is None else {call.call: call for call in sites[place].samples}
            self._calls[site.index] = calls
        return self._calls[site.index]

    def differing(
        self, site: SiteRecord, number: int, part: Part, digests: Sequence[str]
    ) -> list[int]:
        """The arrays of one part of a call that its call ``number`` does not have."""
        sample = (self.calls(site) or {}).get(number)
        values = sample and getattr(sample, part)
        if not values:
            return []
        known = digest_parts(values.digests)
        return [k for k, digest in enumerate(digests) if known.isdisjoint(digest.split("/"))]

    def has_collectives(self, site: SiteRecord, number: int) -> bool:
        """Whether the results of collectives in its call ``number`` are on tape."""
        sample = (self.calls(site) or {}).get(number)
        return bool(sample and sample.inside and sample.inside.digests)


class Tape:
    """The arrays of all calls of a program."""

    def __init__(
        self,
        options: TapeOptions | None = None,
        reference: ReferenceRun | None = None,
        children: Children | None = None,
    ) -> None:
        self.options, self.reference = options or TapeOptions(), reference
        self.children = children
        self.room = dict.fromkeys((Part.INPUTS, Part.OUTPUTS, Part.INSIDE), self.options.keep)
        self.arrays: dict[str, array_archive.Bytes] = {}
        # What is kept, by digest and axis: the outputs of a call are often inputs of the next.
        self._kept: dict[tuple[str, int | None], array_archive.Bytes] = {}
        self.reader = Reader()
        self._calls = 0
        self._lock = threading.RLock()

    def record(self, site: SiteRecord, call: int, part: Part, rows: Rows) -> Values:
        """Read one part of a call, with the values that are kept, and put it on tape."""
        return self.put(site, call, part, self._read(site, call, part, rows))

    def _read(self, site: SiteRecord, call: int, part: Part, rows: Rows) -> list[HostArray]:
        kept_calls, room = self.options.kept_calls, self.room[part]

        def wanted(leaf: Any, known: HostArray | None) -> bool:
            devices = len(leaf.sharding.device_set) if isinstance(leaf, jax.Array) else 1
            fits = nbytes(leaf) <= room * devices  # of copies one is kept
            return fits and (known is None or _key(known) not in self._kept)

        if room and (kept_calls is None or call < kept_calls):
            return self.reader.read(rows, wanted)
        arrays = self.reader.read(rows, lambda *_: False)
        if self.reference is None or not room:
            return arrays
        digests = [array.digest for array in arrays]
        differing = self.reference.differing(site, call, part, digests)
        again = self.reader.read([rows[k] for k in differing], wanted)
        for k, array in zip(differing, again, strict=True):
            arrays[k] = array
        return arrays

    def put(self, site: SiteRecord, call: int, part: Part, arrays: Sequence[HostArray]) -> Values:
        """Keep the arrays of one side of a call."""
        with self._lock:
            forms = tuple(array.form for array in arrays)
            number = site.forms.setdefault(forms, len(site.forms))
            for k, array in enumerate(arrays):
                self._keep(array_archive.name_of(site.index, call, part, k), part, array)
            return Values(number, tuple(array.digest for array in arrays))

    def _keep(self, name: str, part: Part, array: HostArray) -> None:
        key = _key(array)
        kept = self._kept.get(key) if array.digest else None
        if kept is None and array.values is not None and array.values.nbytes:
            bits = bits_of(root(array.values, array.form.axis))
            if bits.nbytes <= self.room[part]:
                self.room[part] -= bits.nbytes
                # A copy: the buffer may be donated by the next call.
                kept = self._kept[key] = bits.copy()
        if kept is not None:
            self.arrays[name] = kept

    def next_number(self, site: SiteRecord) -> tuple[int, int]:
        """The number of the call that begins now: of this site, and of all sites."""
        if self.children is not None:
            self.children.note_call()
        with self._lock:
            site.taped += 1
            self._calls += 1
            return site.taped - 1, self._calls

    def add(self, site: SiteRecord, sample: Sample) -> None:
        """A call has ended."""
        if threading.current_thread() is not threading.main_thread():
            sample = replace(sample, threaded=True)
        with self._lock:
            site.samples.append(sample)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the values beside the capture in ``path``."""
        array_archive.save(self.arrays, os.path.abspath(path))


def _key(array: HostArray) -> tuple[str, int | None]:
    return array.digest, array.form.axis
