"""What is recorded of one site while a program runs; bounded for any number of calls."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from shardlift.capture import schema
from shardlift.capture.counts import Histogram, Tally
from shardlift.capture.proofs import of_all_programs
from shardlift.capture.schema import LeafFacts, SiteKind
from shardlift.recording.compilations import Signature, reasons

# Of each site at most this many of each.
MOST_COMPILES, MOST_SIGNATURES, MOST_REASONS = 32, 16, 8
LONGEST_TEXT = 200  # characters of a path or of a reason
INSPECTED = (0, 2, 7)  # calls that are inspected, whatever it costs
PROBES = 3


class SiteKey(NamedTuple):
    """What identifies a site."""

    file: str
    line: int
    function: str
    number: int = 0  # of several functions on one line, where calls are on tape


class SiteRecord:
    """One site, as recorded so far."""

    def __init__(self, key: SiteKey, index: int, kind: SiteKind = SiteKind.PMAP) -> None:
        self.key, self.index, self.kind = key, index, kind
        self.calls = self.nested = self.transformed = self.looked = 0
        self._first = list(INSPECTED)
        self.next_call: float = self._first.pop(0)  # that is inspected, whatever it costs
        self.next_time = math.inf  # from which on a call is inspected
        self.pending: list[float] = []  # seconds of calls that are to be counted
        self.times = {field.name: Histogram() for field in dataclasses.fields(schema.Times)}
        self.about: dict[str, Any] = {}  # axis name and size
        self.arguments: dict[str, LeafFacts] = {}
        self.outputs: dict[str, LeafFacts] = {}
        self.compile_count = 0
        self.compiles: list[tuple[schema.CompileReason, ...]] = []
        self.signatures: list[Signature] = []
        self.moves: Tally[schema.Move] = Tally("count", "nbytes")
        self.reads: Tally[schema.Read] = Tally("count", "nbytes", "seconds")
        self.proofs: tuple[schema.Proof, ...] | None = None
        self.whole_batch: schema.WholeBatchTrial | None = None
        self.proved = 0  # programs that the proofs are of
        self.unseen: dict[str, None] = {}
        # What is on tape: see `recording.tape`.
        self.names: dict[str, None] = {}  # of the functions that are mapped, of the variable
        self.size = 0  # devices
        self.taped = 0  # calls that were begun
        self.programs: Counter[str] = Counter()  # calls of each whose collectives are on tape
        self.forms: dict[tuple[schema.ArrayForm, ...], int] = {}
        self.samples: list[schema.Sample] = []

    def contain(self, inner: SiteRecord) -> None:
        """A site that is called or made inside this one is part of it."""
        self.names.update(inner.names)
        if self.kind is SiteKind.JIT:  # of a function that is mapped
            self.kind = inner.kind

    # ---- looks

    def schedule(self, next_time: float) -> None:
        """Choose the next call that is inspected: one of the first ones, then one by time."""
        self.next_call = self._first.pop(0) if self._first else math.inf
        self.next_time = math.inf if self.next_call < math.inf else next_time

    def note_leaves(self, into: dict[str, LeafFacts], leaves: Iterable[LeafFacts]) -> None:
        """Keep the latest state of each leaf, and the comparisons of all inspections."""
        old = dict(into)
        into.clear()
        for leaf in leaves:
            short = dataclasses.replace(leaf, path=clip(leaf.path))
            into[short.path] = _join(old.get(short.path), short)

    def note_move(self, move: schema.Move) -> None:
        """Count a move of an argument."""
        self.moves.add(dataclasses.replace(move, path=clip(move.path)))

    def note_compile(self, seen: Signature) -> None:
        """Add a compilation and its reasons; the first ones and the last one are kept."""
        self.compile_count += 1
        why = reasons(seen, self.signatures)
        kept = tuple(
            schema.CompileReason(one.kind, clip(one.path), clip(one.before), clip(one.after))
            for one in why[:MOST_REASONS]
        )
        if len(self.compiles) >= MOST_COMPILES:
            self.compiles.pop()
        self.compiles.append(kept)
        if seen not in self.signatures:
            self.signatures = [*self.signatures[-MOST_SIGNATURES + 1 :], seen]

    def note_proofs(self, proofs: tuple[schema.Proof, ...]) -> None:
        """Add the proofs of one more program; only what holds for all programs counts."""
        self.proofs = of_all_programs(self.proofs, proofs)
        self.proved += 1

    # ---- the record in the capture

    def freeze(self, process: int) -> schema.SiteFacts:
        """The site as a part of a capture."""
        return schema.SiteFacts(
            *self.key[:3],
            **{"axis_size": self.size, **self.about},
            processes=(process,),
            calls=self.calls or sum(not sample.failed for sample in self.samples),
            nested=self.nested,
            transformed=self.transformed,
            times=schema.Times(**{name: times.freeze() for name, times in self.times.items()}),
            looked=self.looked,
            arguments=tuple(self.arguments.values()),
            outputs=tuple(self.outputs.values()),
            compiles=tuple(self.compiles),
            compile_count=self.compile_count,
            moves=self.moves.freeze(),
            reads=self.reads.freeze(),
            unseen=tuple(self.unseen),
            kind=self.kind,
            names=tuple(self.names),
            forms=tuple(self.forms),
            samples=tuple(self.samples),
            whole_batch=self.whole_batch,
            # A program that was not analysed may do anything.
            proofs=(self.proofs or ()) if self.proved == self.compile_count else (),
        )


def clip(text: str) -> str:
    """Cut a text to the maximum length, keeping its end."""
    return text if len(text) <= LONGEST_TEXT else "…" + text[1 - LONGEST_TEXT :]


def _join(old: LeafFacts | None, new: LeafFacts) -> LeafFacts:
    """Merge two inspections of a leaf: it is equal if it was equal each time."""
    if old is None:
        return new
    equal = new.equal if old.equal is None else old.equal and new.equal is not False
    return dataclasses.replace(
        new,
        kept=old.kept + new.kept,
        compared=old.compared + new.compared,
        equal=equal,
        digest=new.digest or old.digest,
    )
