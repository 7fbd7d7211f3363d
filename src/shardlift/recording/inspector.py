"""Inspects some calls, within a budget of time, and notes what it finds.

Three calls of each site are inspected, more as long as these take a hundredth of the time, and
those that compile a program. Only an inspected call waits for a device.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import jax

from shardlift.capture.schema import Process, Untried, WholeBatchTrial
from shardlift.recording.compilations import Running, here
from shardlift.recording.hooks import Fault, ObservedFunction
from shardlift.recording.mapped_calls import PmapCall
from shardlift.recording.output_reads import Origins
from shardlift.recording.process import process_facts
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

    def before(
        self,
        record: SiteRecord,
        mapped: ObservedFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        now: float,
    ) -> PmapCall | None:
        """Inspect a call that is about to run."""
        call = None
        with contextlib.suppress(Exception):  # wrong arguments: the call itself will say so
            call = mapped.take_apart(args, kwargs)
            call.compare_inputs()
            trial = record.whole_batch
            if mapped.traceable and (trial is None or trial.untried is Untried.EQUAL_ROWS):
                from shardlift.recording import whole_batch_trial

                try:
                    call.held = whole_batch_trial.hold(call)
                except whole_batch_trial.UntriedError as error:
                    record.whole_batch = WholeBatchTrial(error.reason)
            call.seconds = _clock() - now
        return call

    def after(
        self,
        record: SiteRecord,
        mapped: ObservedFunction,
        running: Running,
        call: PmapCall | None,
        given: tuple[tuple[Any, ...], dict[str, Any]],
        out: Any,
        span: tuple[float, float],
    ) -> None:
        """Record a call that was inspected, compiled a program, or moved arguments."""
        entered, left = span
        took, times = left - entered, record.times
        try:
            # Was the program of the site itself compiled, and not only a helper of JAX?
            own = {f"jit({mapped.program})", mapped.program, "jit(_fun)", "_fun", ""}
            compiled = not own.isdisjoint(running.compiled)
            if compiled and call is None:
                call = mapped.take_apart(*given)
            if call is not None and call.comparing and not compiled:
                jax.block_until_ready(out)  # its outputs are going to be read: time that
                times["waiting"].add(_clock() - left)
            if compiled and call is not None:
                times["compiling"].add(took)
                record.note_compile(call.signature())
            else:
                times["call"].add(took)
                if running.moving:
                    times["moving"].add(running.moving)
            for move in running.moved:
                record.note_move(move)
            if call is not None:
                record.looked += 1
                record.about = call.about()
                self.process = self.process or process_facts(True)
                record.note_leaves(record.arguments, call.arguments())
                record.note_leaves(record.outputs, call.outputs(out))
                for _, leaf, axis in call.rows_of(out):
                    if axis is not None and isinstance(leaf, jax.Array):
                        self.origins.add(leaf, record)
                moves = call.moves({move.path for move in running.moved})
                for move in moves:
                    record.note_move(move)
                if moves and not compiled and times["probes"].count < PROBES:
                    jax.block_until_ready(out)
                    seconds = call.probe({move.path for move in moves})
                    if seconds is not None:
                        times["probes"].add(seconds)
                if compiled and mapped.traceable:
                    self._ask_program(record, call, running.fitted)
                if call.held is not None:
                    _try_whole_batch(record, call, running.fitted)
        except Exception as error:
            self._fault(error)
        if call is not None and call.comparing:
            now = _clock()
            cost = call.seconds + now - left
            record.schedule(now + cost * self.sites / SHARE)

    def _ask_program(self, record: SiteRecord, call: PmapCall, fitted: list[Any] | None) -> None:
        """Note which outputs of the program that ran are equal everywhere."""
        with _apart_from_the_program():
            try:
                traced = call.traced(fitted)
                if traced is not None:
                    record.note_proofs(call.proofs(record.arguments, traced))
            except Exception as error:
                self._fault(error)


def _try_whole_batch(record: SiteRecord, call: PmapCall, fitted: list[Any] | None) -> None:
    """Run a step once on the whole batch; an error of it is noted."""
    from shardlift.recording import whole_batch_trial

    assert call.held is not None
    with _apart_from_the_program():
        try:
            if record.times["compiling"].max > whole_batch_trial.SLOWEST:
                raise whole_batch_trial.UntriedError(Untried.TOO_SLOW)
            traced = call.traced(fitted)
            if traced is not None:
                record.whole_batch = whole_batch_trial.try_whole_batch(call, traced, call.held)
        except whole_batch_trial.UntriedError as error:
            record.whole_batch = WholeBatchTrial(error.reason)
        except Exception as error:  # whatever the step raises on a batch of another size
            first_line = f"{type(error).__name__}: {error}".partition("\n")[0]
            record.whole_batch = WholeBatchTrial(Untried.FAILED, clip(first_line))


@contextlib.contextmanager
def _apart_from_the_program() -> Iterator[None]:
    """What is traced here was not asked for by the program."""
    here.running, here.is_apart = None, True
    try:
        yield
    finally:
        here.is_apart = False
