"""Mapped functions whose calls are put on tape.

Only the outermost call counts: what runs inside another, or under a transformation, is part of
it.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from typing import Any

import jax

from shardlift import _compat
from shardlift.capture.schema import Part, Sample, Values
from shardlift.recording.calls import CallAdapter, FlatCall
from shardlift.recording.site_records import SiteRecord
from shardlift.recording.tape import taps
from shardlift.recording.tape.tape import Tape


class _Here(threading.local):
    """What runs on this thread."""

    site: SiteRecord | None = None


_here = _Here()


def note_made(site: SiteRecord) -> None:
    """A site that is made inside a call on tape, while that is traced, is part of it."""
    if _here.site is not None:
        _here.site.contain(site)


class TapedFunction:
    """A mapped function whose calls are put on tape.

    ``under`` is told of calls under a transformation or inside another call.
    """

    def __init__(
        self,
        mapped: Any,
        fun: Any,
        tape: Tape,
        site: SiteRecord,
        adapter: CallAdapter,
        under: Callable[[SiteRecord, bool, Any], None],
    ) -> None:
        functools.update_wrapper(self, fun)
        self._mapped, self._tape, self._site, self._adapter = mapped, tape, site, adapter
        self._under = under

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and put the call on tape."""
        outer = _here.site
        if outer is not None or _compat.tracing():
            self._under(self._site, outer is not None, (args, kwargs))
            if outer is not None:
                outer.contain(self._site)
            return self._mapped(*args, **kwargs)
        _here.site = self._site
        try:
            return self._call(args, kwargs)
        finally:
            _here.site = None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method, where the mapped function is one."""
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        """``lower``, ``trace`` and the like; what they return is not on tape."""
        if name == "_mapped":  # a copy that has not been filled in yet
            raise AttributeError(name)
        return getattr(self._mapped, name)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tape, site = self._tape, self._site
        number = tape.next_number(site)
        flat, inputs, inside = self._before(number, args, kwargs)
        try:
            if _compat.DELETED_INPUT_CRASHES:  # and would take what is on tape with it
                _compat.raise_if_deleted((args, kwargs))
            out = self._mapped(*args, **kwargs)
        except BaseException as error:
            first = str(error).partition("\n")[0][:200]
            message = f"{type(error).__name__}{f': {first}' * bool(first)}"
            tape.add(site, Sample(number, True, inputs, None, inside, error=message))
            raise
        outputs = replayed = None
        try:
            outputs = tape.put(site, number, Part.OUTPUTS, tape.read(self._adapter.outputs(out)))
            site.size = max(site.size, flat.size if flat else 0, _devices(out))
            if flat is not None and inputs is not None:
                replayed = self._replay(number, flat, inputs)
        except Exception as error:
            _note_fault(site, "outputs", error)
        tape.add(site, Sample(number, False, inputs, outputs, inside, replayed))
        return out

    def _before(
        self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[FlatCall | None, Values | None, Values | None]:
        """The inputs, and what the collectives exchange: before the call, which may free them."""
        tape, site = self._tape, self._site
        try:
            flat = self._adapter.flatten(args, kwargs)
        except Exception:  # wrong arguments: the call itself will say so
            return None, None, None
        inputs = inside = None
        try:
            arrays = tape.read(flat.rows, want=tape.room[Part.INPUTS] > 0)
            inputs = tape.put(site, number, Part.INPUTS, arrays)
            if number < tape.options.tapped and tape.options.oracle != "vmap":
                inside = self._tap(number, flat)
        except Exception as error:
            _note_fault(site, "inputs", error)
        return flat, inputs, inside

    def _tap(self, number: int, flat: FlatCall) -> Values | None:
        try:
            arrays, notes = taps.look(self._mapped, flat)
        except Exception as error:
            _note_fault(self._site, "collectives", error)
            return None
        self._site.unseen.update(dict.fromkeys(notes))
        return self._tape.put(self._site, number, Part.INSIDE, arrays)

    def _replay(self, number: int, flat: FlatCall, inputs: Values) -> Values | None:
        """The outputs for the inputs that the other program had in this call."""
        tape = self._tape
        if tape.reference is None:
            return None
        leaves = tape.reference.inputs(self._site, number, flat, inputs)
        if leaves is None:
            return None
        args, kwargs = flat.rebuild(leaves)
        arrays = tape.read(self._adapter.outputs(self._mapped(*args, **kwargs)))
        return tape.put(self._site, number, Part.REPLAYED, arrays)


def _note_fault(site: SiteRecord, what: str, error: BaseException) -> None:
    first = str(error).partition("\n")[0][:120]
    site.unseen[f"{what} of a call, because of {type(error).__name__}: {first}"] = None


def _devices(out: Any) -> int:
    arrays = [leaf for leaf in jax.tree.leaves(out) if isinstance(leaf, jax.Array)]
    return max((len(leaf.sharding.device_set) for leaf in arrays), default=0)
