"""The recorder: counts and times the calls of mapped functions, and inspects some of them.

The program is not changed. An error inside the recorder is counted and never reaches the program.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax

from shardlift import _compat
from shardlift.capture import files
from shardlift.capture.schema import Capture, MovedBy, Read, ReadBy, SiteKind
from shardlift.mapping import nesting
from shardlift.mapping.argument_placement import Fit
from shardlift.mapping.axes import Call
from shardlift.mapping.plan import Plan
from shardlift.mapping.site import MappedFunction
from shardlift.recording.caller import assigned_name, codes_of, names_of, user_line
from shardlift.recording.compilations import Running, here, on_duration
from shardlift.recording.hooks import ObservedFunction, hook_every, hook_pmap
from shardlift.recording.inspector import Inspector
from shardlift.recording.mapped_calls import move_of
from shardlift.recording.notebook_lines import first_lines
from shardlift.recording.output_reads import observed_reads
from shardlift.recording.process import job_name, process_facts, sources
from shardlift.recording.site_records import SiteKey, SiteRecord, clip
from shardlift.recording.summary import summarise

if TYPE_CHECKING:
    from shardlift.recording.tape.tape import Tape
    from shardlift.recording.tape.taped_calls import TapedCalls

BATCH = 512  # calls that are counted together
_clock = time.perf_counter


class Recorder:
    """Records the pmap sites of a program, and writes what it saw as a capture.

    Args:
      command: how the program was started, for the reader of the capture.
      patched: is ``jax.pmap`` replaced in the program, or only observed?
      facts: False records neither times nor placements: only what is on the tape.
      tape: where the arrays of every call go, if they are wanted.
    """

    def __init__(
        self,
        *,
        command: Sequence[str] = (),
        patched: bool = True,
        facts: bool = True,
        tape: Tape | None = None,
    ) -> None:
        self._command = tuple(command)
        self._patched, self._facts, self._tape = patched, facts, tape
        self._began = _clock()
        self._started = time.time()
        self._process_id = os.getpid()
        self._lock = threading.RLock()
        self._sites: dict[SiteKey, SiteRecord] = {}
        self._codes: dict[SiteKey, list[Any]] = {}  # of the functions of a line
        self._unsure = 0  # reads of an array that may come from several sites
        self._inspector = Inspector(self._faulty)
        self._used: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._on = False
        self.running = False  # what is written before the end of the program says so
        self._written: tuple[str, Capture] | None = None  # where, and what, last

    # ---- on and off

    @contextlib.contextmanager
    def observing(self) -> Iterator[None]:
        """Record inside a ``with`` block; only here are reads of outputs observed."""
        with observed_reads(self.read):
            self._start()
            try:
                yield
            finally:
                self._stop()

    def _start(self) -> None:
        if not self._on:
            self._on = True
            # `_replication` needs it. Now: imported in the middle of a run, it makes JAX trace
            # every program once more (0.12.0).
            importlib.import_module("jax.extend.core.primitives")
            jax.monitoring.register_event_duration_secs_listener(on_duration)
            MappedFunction.observer = self

    def _stop(self) -> None:
        if self._on:
            self._on = False
            # The program may have cleared all listeners meanwhile.
            with contextlib.suppress(AssertionError, ValueError):
                jax.monitoring.unregister_event_duration_listener(on_duration)
            MappedFunction.observer = None

    # ---- what is recorded

    def pmap(self, pmap: Callable[..., Any]) -> Callable[..., Any]:
        """The given pmap, with its sites recorded."""
        if self._facts:
            self._start()
        return hook_pmap(pmap, self._observe, self._faulty)

    def jit(self, jit: Callable[..., Any]) -> Callable[..., Any]:
        """The given jit; its functions are sites where calls are on tape."""
        return self._hook(jit, SiteKind.JIT)

    def shard_map(self, shard_map: Callable[..., Any]) -> Callable[..., Any]:
        """The given shard_map; its functions are sites where calls are on tape."""
        return self._hook(shard_map, SiteKind.SHARD_MAP)

    def _hook(self, transform: Callable[..., Any], kind: SiteKind) -> Callable[..., Any]:
        if self._tape is None:
            return transform
        return hook_every(transform, kind, self._observe, self._faulty)

    def _observe(self, mapped: ObservedFunction) -> Any:
        """The same mapped function; its calls are recorded."""
        key = mapped.key
        if self._tape is not None:  # then each function of a line is a site
            codes = self._codes.setdefault(key, [])
            code = codes_of(mapped.fun)
            if code not in codes:
                codes.append(code)
            key = key._replace(number=codes.index(code))
        record = self._site(key, mapped.kind)
        timed = self._facts and mapped.kind is SiteKind.PMAP
        tape = self._taped(record, mapped, timed)
        if timed:
            recorded = self._timed(record, mapped, tape or mapped.call)
            functools.update_wrapper(recorded, mapped.call)
        else:
            assert tape is not None, "without times, the arrays are recorded"
            recorded = functools.update_wrapper(lambda *a, **kw: tape(*a, **kw), mapped.fun)
        for name in dir(mapped.call):  # `lower`, `eval_shape` and the like
            if not name.startswith("__") and hasattr(mapped.call, name):
                setattr(recorded, name, getattr(mapped.call, name))
        return recorded

    def _taped(
        self, record: SiteRecord, mapped: ObservedFunction, timed: bool
    ) -> TapedCalls | None:
        if self._tape is None:
            return None
        from shardlift.recording.tape.taped_calls import TapedCalls

        record.names.update(dict.fromkeys(names_of(mapped.fun)))
        if variable := assigned_name(mapped.key.file, mapped.key.line):
            record.names[variable] = None
        if here.taped is not None:  # it is made inside a call on tape, while that is traced
            here.taped.contain(record)
        under = (lambda *_: None) if timed else self._under  # then it is counted already
        return TapedCalls(mapped, self._tape, record, under)

    def _timed(self, record: SiteRecord, mapped: ObservedFunction, call: Any) -> Callable[..., Any]:
        label = f"{record.key.function} ({os.path.basename(record.key.file)}:{record.key.line})"
        tracing, annotation, clock = _compat.tracing, jax.profiler.TraceAnnotation, _clock
        inspector = self._inspector

        # What every call pays; see bench/record_overhead.py before you add to it.
        def recorded(*args: Any, **kwargs: Any) -> Any:
            if tracing():
                self._under(record, nesting.current_frame() is not None)
                return call(*args, **kwargs)
            outer, running = here.running, here.spare or Running()
            look, entered = None, clock()
            if record.calls >= record.next_call or entered >= record.next_time:
                look = inspector.before(record, mapped, args, kwargs, entered)
                entered = clock()
            here.running, here.spare = running, None
            try:
                with annotation(label):
                    out = call(*args, **kwargs)
            finally:
                here.running = outer
            left = clock()
            if running.busy or look is not None:
                given, span = (args, kwargs), (entered, left)
                inspector.after(record, mapped, running, look, given, out, span)
            else:
                here.spare = running
                record.pending.append(left - entered)
                if len(record.pending) >= BATCH:
                    self._count(record)
            record.calls += 1
            return out

        return recorded

    def _count(self, record: SiteRecord) -> None:
        """Move pending calls into the histogram."""
        with self._lock:  # a capture may be taken in another thread while the program runs
            count = len(record.pending)
            durations = record.pending[:count]
            del record.pending[:count]  # not a new list: a call may be about to append to this one
            record.times["call"].add_all(durations)

    def _site(self, key: SiteKey, kind: SiteKind) -> SiteRecord:
        """The record of a site."""
        with self._lock:
            if key not in self._sites:
                self._sites[key] = SiteRecord(key, len(self._sites), kind)
                self._inspector.sites = len(self._sites)
            return self._sites[key]

    def _faulty(self, error: BaseException) -> None:
        if len(self._faults) < 20:
            first_line = str(error).partition("\n")[0]
            self._faults[clip(f"{type(error).__name__}: {first_line}")] += 1

    # ---- a call

    def _under(self, record: SiteRecord, nested: bool) -> None:
        """A call inside another one, or under a transformation."""
        if not here.is_apart:
            record.nested += nested
            record.transformed += not nested

    # ---- events from elsewhere

    def fitted(
        self, site: MappedFunction, plan: Plan, call: Call, fit: Fit, seconds: float
    ) -> None:
        """See `MappedFunction.observer`: the pmap moved its arguments itself."""
        running = here.running
        if running is None:
            return
        running.busy = True
        running.moving += seconds
        if fit.leaves is None:
            return
        running.fitted = fit.leaves
        try:
            rows = zip(site.names(call), call.leaves, fit.leaves, call.axes, strict=True)
            for path, old, new, axis in rows:
                move = None if new is old else move_of(plan, path, old, axis, MovedBy.PMAP)
                if move is not None:
                    running.moved.append(move)
        except Exception as error:
            self._faulty(error)

    def read(self, array: jax.Array, how: str, nbytes: int, seconds: float = 0.0) -> None:
        """An output was read by ``how``: "index", "unreplicate" or "device_get"."""
        if here.is_apart:
            return
        try:
            for record in self._inspector.origins.find(array):
                if record is None:
                    self._unsure += 1
                else:
                    record.reads.add(Read(ReadBy(how), *user_line(), 1, nbytes, seconds))
        except Exception as error:
            self._faulty(error)

    def is_apart(self) -> bool:
        """Does the recorder itself run a function of the program in this thread?"""
        return here.is_apart

    def used(self, name: str) -> None:
        """A name that was restored in the program was used."""
        self._used[name] += 1

    # ---- what was recorded

    def capture(self) -> Capture:
        """The capture of the run so far."""
        with self._lock:
            records = list(self._sites.values())
        for record in records:
            self._count(record)
        calls = sum(record.calls for record in records)
        used = calls > 0 or any(record.samples for record in records)
        process = replace(self._inspector.process or process_facts(used), ended=not self.running)
        children = None if self._tape is None else self._tape.children
        return Capture(
            command=self._command,
            patched=self._patched,
            started=self._started,
            seconds=_clock() - self._began,
            processes=(process,),
            sites=tuple(record.freeze(process.index) for record in records),
            used=dict(self._used),
            unseen=tuple(self._unseen()),
            sources=sources() if calls and self._facts else {},
            cells=first_lines(),
            job=job_name(),
            children=children.count() if children else 0,
        )

    def note_devices(self) -> None:
        """Note the devices, before JAX lets go of them at the end of the process."""
        if any(record.samples for record in self._sites.values()):
            self._inspector.process = self._inspector.process or process_facts(True)

    def has_calls(self) -> bool:
        """Whether the program has called a mapped function."""
        with self._lock:
            return any(record.calls or record.samples for record in self._sites.values())

    def _unseen(self) -> Iterator[str]:
        if self._unsure:
            yield f"the origin of {self._unsure} outputs that were read (several sites match)"
        if self._facts and not self._patched:
            yield "which outputs are always equal: jax.pmap was left in place, and cannot be asked"
        for fault, count in self._faults.items():
            yield f"what an error of the recorder hid, {count} times: {fault}"

    def write(self, path: str | os.PathLike[str]) -> Capture | None:
        """Write the capture, atomically. A forked child writes nothing."""
        if os.getpid() == self._process_id:
            capture = self.capture()
            if self._tape is not None:
                self._tape.save(path)
            files.write(capture, path)
            self._written = str(path), capture
            return capture
        return None

    def summary(self) -> str:
        """A few lines for the end of a run, with the next command to type."""
        path, capture = self._written or ("", self.capture())
        return "\n".join(summarise(capture, path))
