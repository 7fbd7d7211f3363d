"""Puts the calls of mapped functions on tape.

Only the outermost call counts: what runs inside another, or under a transformation, is part of
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax

from shardlift import _compat
from shardlift.capture.schema import Part, Sample, Values
from shardlift.recording.compilations import here, type_name
from shardlift.recording.hooks import ObservedFunction
from shardlift.recording.mapped_calls import MappedCall
from shardlift.recording.site_records import SiteRecord
from shardlift.recording.tape import taps
from shardlift.recording.tape.tape import Tape

MOST_PROGRAMS = 32  # of a site whose collectives are recorded


class TapedCalls:
    """Listens to the calls of a mapped function, and puts them on tape.

    ``under`` is told of calls under a transformation or inside another call.
    """

    def __init__(
        self,
        mapped: ObservedFunction,
        tape: Tape,
        site: SiteRecord,
        under: Callable[[SiteRecord, bool], None],
    ) -> None:
        self._about, self._mapped = mapped, mapped.call
        self._tape, self._site, self._under = tape, site, under
        self._programs: dict[Any, taps.TracedProgram] = {}
        self._looks: Counter[Any] = Counter()  # calls of each whose collectives are on tape

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and put the call on tape."""
        outer = here.taped
        if outer is not None or _compat.tracing():
            self._under(self._site, outer is not None)
            if outer is not None:
                outer.contain(self._site)
            return self._mapped(*args, **kwargs)
        here.taped = self._site
        try:
            return self._call(args, kwargs)
        finally:
            here.taped = None

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tape, site = self._tape, self._site
        number, order = tape.next_number(site)
        with jax.transfer_guard("allow"):  # what the program forbids is not what is read here
            call, sample = self._before(Sample(number, order=order), args, kwargs)
        try:
            if _compat.DELETED_INPUT_CRASHES:  # and would take what is on tape with it
                _compat.raise_if_deleted((args, kwargs))
            out = self._mapped(*args, **kwargs)
        except BaseException as error:
            tape.add(site, replace(sample, failed=True, error=_first_line(error, 200)))
            raise
        if call is None:
            site.unseen["calls whose arguments could not be taken apart"] = None
        else:
            try:
                with jax.transfer_guard("allow"):
                    outputs = tape.record(site, number, Part.OUTPUTS, call.rows_of(out))
                    sample = replace(sample, outputs=outputs)
                    site.size = max(site.size, call.size, _devices(out))
            except Exception as error:
                _note_fault(site, "outputs", error)
        tape.add(site, sample)
        return out

    def _before(
        self, sample: Sample, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[MappedCall | None, Sample]:
        """Add inputs and results of collectives before the call, which may free the inputs."""
        try:
            call = self._about.take_apart(args, kwargs)
        except Exception:  # wrong arguments: the call itself will say so
            return None, sample
        try:
            inputs = self._tape.record(self._site, sample.call, Part.INPUTS, call.rows)
            sample = replace(sample, inputs=inputs)
        except Exception as error:
            _note_fault(self._site, "inputs", error)
        if self._tape.options.tapped:
            inside, hidden = self._tap(sample.call, call)
            sample = replace(sample, inside=inside, hidden=hidden)
        return call, sample

    def _tap(self, number: int, call: MappedCall) -> tuple[Values | None, str]:
        """The results of the collectives, in the first calls of each program of the site.

        A call in which the other program has them is looked at too.
        """
        if not self._about.traceable and jax.process_count() > 1:
            return None, "jax.pmap cannot be traced in a job of many processes"
        site, key = self._site, _program_key(call)
        try:
            program = self._programs.get(key)
            if program is None:
                program = self._programs[key] = taps.TracedProgram(self._mapped, call)
            if not self._is_wanted(program, key, number):
                return None, ""
            if program.name not in site.programs and len(site.programs) >= MOST_PROGRAMS:
                return None, f"of one of more than {MOST_PROGRAMS} programs of this function"
            self._looks[key] += 1
            site.programs[program.name] += 1
            arrays, hidden = program.look(call)
            return self._tape.put(site, number, Part.INSIDE, arrays), hidden
        except Exception as error:
            return None, _first_line(error)

    def _is_wanted(self, program: taps.TracedProgram, key: Any, number: int) -> bool:
        """Whether the collectives of a call are to be recorded."""
        seen, most, reference = self._site.programs, self._tape.options.tapped, self._tape.reference
        if reference is None or reference.calls(self._site) is None:
            # The other program may have another program in this call.
            is_new = program.name not in seen
            return self._looks[key] < most and (is_new or seen.total() < most * MOST_PROGRAMS)
        return seen[program.name] < most or reference.has_collectives(self._site, number)


def _program_key(call: MappedCall) -> Any:
    """What decides which program a call of one function needs."""
    tree, static = call.structure()
    types = tuple(
        (jax.typeof(leaf) if isinstance(leaf, jax.Array) else type_name(leaf))
        for leaf in call.leaves
    )
    try:
        key = tree, tuple(static.items()), types
        hash(key)
    except TypeError:  # a static argument that JAX takes by its repr is none of JAX's
        return tree, repr(static), types
    return key


def _note_fault(site: SiteRecord, what: str, error: BaseException) -> None:
    site.unseen[f"{what} of a call, because of {_first_line(error)}"] = None


def _first_line(error: BaseException, most: int = 120) -> str:
    first = str(error).partition("\n")[0][:most]
    return f"{type(error).__name__}{f': {first}' * bool(first)}"


def _devices(out: Any) -> int:
    arrays = [leaf for leaf in jax.tree.leaves(out) if isinstance(leaf, jax.Array)]
    return max((len(leaf.sharding.device_set) for leaf in arrays), default=0)
