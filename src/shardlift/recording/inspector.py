"""Inspects some calls, within a budget of time, and notes what it finds.

Three calls of each site are inspected, more as long as these take a hundredth of the time, and
those that compile a program. Only an inspected call waits for a device.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

import jax

from shardlift.capture.schema import Move, MovedBy, Process, Untried, WholeBatchTrial
from shardlift.recording.compilations import Running, here
from shardlift.recording.hooks import Fault, ObservedFunction
from shardlift.recording.mapped_calls import PmapCall
from shardlift.recording.output_reads import Origins
from shardlift.recording.process import process_facts
from shardlift.recording.programs import collectives
from shardlift.recording.site_records import PROBES, SiteRecord, clip

SHARE = 0.01  # of the time of the run, that the inspections after the first ones may take
_clock = time.perf_counter


class Inspector:
    """Decides which calls are inspected, and keeps what was found in the records of their sites."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.sites = 0  # that share the budget
        self.origins = Origins()
        self.process: Process | None = None

    def inspect(
        self, mapped: ObservedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> PmapCall | None:
        """Inspect a call that compiled a program, after it has run."""
        try:
            return _take_apart(mapped, args, kwargs)
        except Exception as error:
            self._fault(error)
            return None

    def before(
        self,
        record: SiteRecord,
        mapped: ObservedFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        now: float,
    ) -> PmapCall | None:
        """Inspect a call that is about to run."""
        if not mapped.inspected:
            record.next_call = math.inf
            return None
        look = None
        with contextlib.suppress(Exception):  # wrong arguments: the call itself will say so
            look = _take_apart(mapped, args, kwargs)
            look.compare_inputs()
            self._hold(record, mapped, look)
            look.seconds = _clock() - now
        return look

    def _hold(self, record: SiteRecord, mapped: ObservedFunction, look: PmapCall) -> None:
        """Keep the arguments for a trial on the whole batch, until one has shown something."""
        from shardlift.recording import whole_batch_trial

        trial = record.whole_batch
        is_due = trial is None or trial.untried is Untried.EQUAL_ROWS
        if not is_due or not mapped.traceable:
            return
        try:
            look.held = whole_batch_trial.hold(look)
        except whole_batch_trial.UntriedError as error:
            record.whole_batch = WholeBatchTrial(error.reason)

    def after(
        self,
        record: SiteRecord,
        mapped: ObservedFunction,
        running: Running,
        look: PmapCall | None,
        out: Any,
        span: tuple[float, float],
    ) -> None:
        """Record a call that was inspected, compiled a program, or moved arguments."""
        entered, left = span
        took, times = left - entered, record.times
        compiled = is_compiled(running, mapped)
        try:
            if look is not None and not compiled and look.comparing:
                jax.block_until_ready(out)  # its outputs are going to be read: time that
                times["waiting"].add(_clock() - left)
            if compiled:
                times["compiling"].add(took)
                seconds = sum(seconds for _, seconds in running.compiled)
                record.note_compile(None if look is None else look.signature(), seconds)
            else:
                times["call"].add(took)
                if running.moving:
                    times["moving"].add(running.moving)
            for path, source, target, size in running.moved:
                record.note_move(Move(path, source, target, size, 1, MovedBy.PMAP))
            if look is not None:
                self._note(record, mapped, running, look, out, compiled)
        except Exception as error:
            self._fault(error)
        if look is not None and look.comparing:
            now = _clock()
            cost = look.seconds + now - left
            record.schedule(now + cost * self.sites / SHARE)

    def _note(
        self,
        record: SiteRecord,
        mapped: ObservedFunction,
        running: Running,
        look: PmapCall,
        out: Any,
        compiled: bool,
    ) -> None:
        record.looked += 1
        record.about = look.about()
        self.process = self.process or process_facts(True)
        record.note_leaves(record.arguments, look.arguments())
        record.note_leaves(record.outputs, look.outputs(out))
        record.note_kept(look.kept())
        for path, leaf, _ in look.rows_of(out):  # by which they are known when they are read
            if isinstance(leaf, jax.Array):
                self.origins.add(leaf, record, path)
        moves = look.moves(path for path, *_ in running.moved)
        for move in moves:
            record.note_move(move)
        if moves and not compiled and record.times["probes"].count < PROBES:
            jax.block_until_ready(out)
            seconds = look.probe({move.path for move in moves})
            if seconds is not None:
                record.times["probes"].add(seconds)
        if compiled and mapped.traceable and record.traces:
            self._ask_program(record, look, running.fitted)
        if look.held is not None and record.traces:
            self._try(record, look, running.fitted)

    def _ask_program(self, record: SiteRecord, look: PmapCall, fitted: list[Any] | None) -> None:
        exchanged = None
        with _apart_from_the_program() as running:
            try:
                traced = look.traced(fitted)
                if traced is not None:
                    exchanged = collectives(traced.jaxpr.jaxpr)
                    record.note_proofs(look.proofs(record.arguments, traced))
            except Exception as error:
                self._fault(error)
                exchanged = None
        if exchanged is None:
            record.unseen["the collectives of a program that could not be asked for them"] = None
        else:
            record.collectives = exchanged
        if look.site.name in running.traced:  # once is once too often
            record.traces = False
            later = "collectives of later programs: the function was traced once more"
            record.unseen[later] = None

    def _try(self, record: SiteRecord, look: PmapCall, fitted: list[Any] | None) -> None:
        """Run a step once on the whole batch; an error of it is noted."""
        from shardlift.recording import whole_batch_trial

        assert look.held is not None
        slowest = max((program.seconds for program in record.compiles), default=0.0)
        with _apart_from_the_program():
            try:
                if slowest > whole_batch_trial.SLOWEST:
                    raise whole_batch_trial.UntriedError(Untried.TOO_SLOW)
                traced = look.traced(fitted)
                if traced is not None:
                    record.whole_batch = whole_batch_trial.try_whole_batch(look, traced, look.held)
            except whole_batch_trial.UntriedError as error:
                record.whole_batch = WholeBatchTrial(error.reason)
            except Exception as error:  # whatever the step raises on a batch of another size
                first_line = f"{type(error).__name__}: {error}".partition("\n")[0]
                record.whole_batch = WholeBatchTrial(Untried.FAILED, clip(first_line))


@contextlib.contextmanager
def _apart_from_the_program() -> Iterator[Running]:
    """What is traced here was not asked for by the program."""
    running = here.running = Running()
    here.is_apart = True
    try:
        yield running
    finally:
        here.running, here.is_apart = None, False


def _take_apart(
    mapped: ObservedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> PmapCall:
    assert mapped.take_apart is not None
    call = mapped.take_apart(args, kwargs)
    assert isinstance(call, PmapCall)
    return call


def is_compiled(running: Running, mapped: ObservedFunction) -> bool:
    """Was the program of the site itself compiled, and not only a helper of JAX?"""
    own = {f"jit({mapped.program})", mapped.program, "jit(_fun)", "_fun", ""}
    return any(name in own for name, _ in running.compiled)
