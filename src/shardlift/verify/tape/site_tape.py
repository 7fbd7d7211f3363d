"""What is kept of the calls of a program: a digest of every array, values as long as they fit."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Iterable, Sequence

from shardlift.capture import files, values
from shardlift.capture.schema import Capture, Form, Sample, Site, SiteKind, Values
from shardlift.recording.process import process_facts
from shardlift.verify.compare.layouts import bits_of, root
from shardlift.verify.tape.child import KEEP, TAPPED
from shardlift.verify.tape.host_arrays import Held, Reader


class SiteTape:
    """One site."""

    def __init__(self, key: tuple[str, int, str], kind: SiteKind, index: int) -> None:
        self.key, self.kind, self.index = key, kind, index
        self.names: dict[str, None] = {}
        self.size = 0
        self.made = self.calls = self.failed = self.nested = self.transformed = 0
        self.forms: dict[tuple[Form, ...], int] = {}
        self.samples: list[Sample] = []
        self.unseen: dict[str, None] = {}
        self.hints: dict[str, None] = {}

    def frozen(self) -> Site:
        """As a part of a capture."""
        return Site(
            *self.key,
            axis_size=self.size,
            made=self.made,
            calls=self.calls,
            failed=self.failed,
            nested=self.nested,
            transformed={"a transformation": self.transformed} if self.transformed else {},
            kind=self.kind,
            names=tuple(self.names),
            forms=tuple(self.forms),
            samples=tuple(self.samples),
            unseen=tuple(self.unseen),
            hints=tuple(self.hints),
        )


class Tape:
    """All sites of a program.

    Args:
      keep: bytes of outputs and of exchanged arrays whose values are kept, of all sites together.
      keep_inputs: the same for inputs.
      tapped: calls of each site whose collectives are looked into.
    """

    def __init__(self, keep: int = KEEP, keep_inputs: int = KEEP, tapped: int = TAPPED) -> None:
        self.room = {"outputs": keep, "inputs": keep_inputs}
        self.tapped = tapped
        self.sites: dict[tuple[str, int, str], SiteTape] = {}
        self.arrays: dict[str, values.Bytes] = {}
        self.lock = threading.RLock()
        self.reader = Reader()

    def site(self, key: tuple[str, int, str], kind: SiteKind, names: Iterable[str]) -> SiteTape:
        """The tape of a site, by where it is made."""
        with self.lock:
            if key not in self.sites:
                self.sites[key] = SiteTape(key, kind, len(self.sites))
            site = self.sites[key]
            site.made += 1
            site.names.update(dict.fromkeys(names))
            return site

    def put(self, site: SiteTape, call: int, part: str, held: Sequence[Held]) -> Values:
        """Keep the arrays of one side of a call."""
        with self.lock:
            forms = tuple(one.form for one in held)
            number = site.forms.setdefault(forms, len(site.forms))
            for k, one in enumerate(held):
                if one.array is not None:
                    self._keep(values.name_of(site.index, call, part, k), part, one)
            return Values(number, tuple(one.digest for one in held))

    def _keep(self, name: str, part: str, held: Held) -> None:
        purse = "inputs" if part == "inputs" else "outputs"
        assert held.array is not None
        if held.array.nbytes and self.room[purse] > 0:
            bits = bits_of(root(held.array, held.form.axis))
            if bits.nbytes <= self.room[purse]:
                self.room[purse] -= bits.nbytes
                self.arrays[name] = bits.copy()  # the buffer may be donated by the next call

    def room_for(self, part: str) -> bool:
        """Is anything kept still?"""
        return self.room["inputs" if part == "inputs" else "outputs"] > 0

    def add(self, site: SiteTape, sample: Sample) -> None:
        """A call has ended."""
        with self.lock:
            site.samples.append(sample)
            site.failed += sample.failed
            site.calls += not sample.failed

    # ---- written

    def capture(self, command: Sequence[str] = (), patched: bool = True) -> Capture:
        """All calls so far as a capture."""
        with self.lock:
            sites = tuple(site.frozen() for site in self.sites.values())
        used = any(site.samples for site in sites)
        return Capture(
            command=tuple(command), patched=patched, processes=(process_facts(used),), sites=sites
        )

    def write(self, path: str, capture: Capture) -> None:
        """The capture, and the values beside it."""
        values.save(self.arrays, os.path.abspath(path))
        files.write(capture, path)


def joined(facts: Capture, tape: Capture) -> Capture:
    """A capture of facts with the samples that were taken in the same run.

    The names of arrays count sites as the tape does, so its sites come first, in its order.
    """
    known = {site.key: site for site in facts.sites}
    sites = [_with_samples(known.pop(site.key, site), site) for site in tape.sites]
    order = {site.key: k for k, site in enumerate([*sites, *known.values()])}
    timeline = tuple(
        dataclasses.replace(event, site=order[facts.sites[event.site].key])
        for event in facts.timeline
    )
    return dataclasses.replace(facts, sites=(*sites, *known.values()), timeline=timeline)


def _with_samples(site: Site, tape: Site) -> Site:
    return dataclasses.replace(
        site,
        axis_size=site.axis_size or tape.axis_size,
        kind=tape.kind,
        names=tape.names,
        forms=tape.forms,
        samples=tape.samples,
        unseen=tuple(dict.fromkeys((*site.unseen, *tape.unseen))),
    )
