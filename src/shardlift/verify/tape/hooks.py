"""pmap, jit and shard_map whose calls are put on tape.

Only the outermost call counts: what runs inside another, or under a transformation, is part of
it. JAX's own uses of jit, ours, and those of libraries that are being imported are left alone.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax

import shardlift
from shardlift import _compat
from shardlift._legacy.patches import Patches
from shardlift.capture.schema import Sample, SiteKind, Values
from shardlift.mapping.registry import remember
from shardlift.recording.caller import shown, user_line
from shardlift.recording.calls import Apart, PlainWay, PmapWay, Way, assigned_name, names_of
from shardlift.recording.process import name_of, site_behind
from shardlift.verify.tape import oracles, taps
from shardlift.verify.tape.host_arrays import Held
from shardlift.verify.tape.reference_run import Tutor
from shardlift.verify.tape.site_tape import SiteTape, Tape
from shardlift.verify.tape.swapping import swapped

_OURS = tuple(os.path.join(os.path.dirname(m.__file__ or ""), "") for m in (jax, shardlift))


class _Here(threading.local):
    """What runs on this thread."""

    site: SiteTape | None = None


here = _Here()


class Taped:
    """A mapped function whose calls are put on tape."""

    def __init__(self, mapped: Any, fun: Any, hooks: Hooks, site: SiteTape, way: Way) -> None:
        functools.update_wrapper(self, fun)
        self._mapped, self._hooks, self._site, self._way = mapped, hooks, site, way

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and keep what there is to keep."""
        if here.site is not None or _compat.tracing():
            self._note_inside()
            return self._mapped(*args, **kwargs)
        here.site = self._site
        try:
            return self._hooks.call(self._mapped, self._site, self._way, args, kwargs)
        finally:
            here.site = None

    def _note_inside(self) -> None:
        """It is part of another call; or else under a transformation, where nobody sees it."""
        if here.site is None:
            self._site.transformed += 1
        else:
            self._site.nested += 1
            here.site.names.update(dict.fromkeys(self._site.names))
            if here.site.kind is SiteKind.JIT:  # of a function that is mapped
                here.site.kind = self._site.kind

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method, where the mapped function is one."""
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        """``lower``, ``trace`` and the like; what they return is not on tape."""
        if name == "_mapped":
            raise AttributeError(name)
        return getattr(self._mapped, name)


class Hooks:
    """What `shardlift.legacy` calls a recorder: it is told of pmaps, and hooks itself to the rest.

    Args:
      tape: where the calls go.
      oracle: what stands in for pmap; see `oracles`.
      tutor: the other program's capture, whose inputs are replayed.
    """

    def __init__(self, tape: Tape, oracle: str = "shardlift.pmap", tutor: Tutor | None = None):
        self.tape, self.oracle, self.tutor = tape, oracle, tutor
        self._counter = threading.Lock()
        self._next: dict[int, int] = {}

    # ---- what `shardlift.legacy` asks of a recorder

    def pmap(self, pmap: Callable[..., Any]) -> Callable[..., Any]:
        """The given pmap, or the oracle in its place, on tape."""
        chosen = oracles.chosen(self.oracle, pmap)

        @functools.wraps(pmap if not isinstance(pmap, functools.partial) else pmap.func)
        def taped_pmap(*args: Any, **kwargs: Any) -> Any:
            pmapped = chosen(*args, **kwargs)
            behind, real = site_behind(pmapped, args, kwargs)
            if behind is None:
                return pmapped  # pmap itself will say what is wrong with its arguments
            fun = args[0] if args else kwargs.get("fun")
            taped = self._taped(pmapped, fun, SiteKind.PMAP, PmapWay(behind))
            if real:
                remember(taped, behind)
            return taped

        return taped_pmap

    def jit(self, jit: Callable[..., Any]) -> Callable[..., Any]:
        """As it is: see `install`."""
        return jit

    def read(self, array: Any, how: str, nbytes: int) -> None:
        """Reads are not on tape."""

    def used(self, name: str) -> None:
        """Nor are restored names."""

    # ---- jit and shard_map

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """``jax.jit`` and ``jax.shard_map`` on tape, for the length of a ``with``."""
        patches = Patches()
        self.install(patches)
        try:
            yield
        finally:
            patches.undo()

    def install(self, patches: Patches) -> None:
        """``jax.jit`` and ``jax.shard_map`` on tape."""
        for kind in (SiteKind.JIT, SiteKind.SHARD_MAP):
            patches.set(jax, kind, self._hooked(getattr(jax, kind), kind))

    def _hooked(self, stock: Any, kind: SiteKind) -> Any:
        @functools.wraps(stock)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            if _is_ours(sys._getframe(1)):
                return stock(*args, **kwargs)
            made = stock(*args, **kwargs)
            fun = args[0] if args else kwargs.get("f", kwargs.get("fun"))
            if not callable(fun):  # @jax.jit(static_argnums=0)
                return lambda fun: self._taped(made(fun), fun, kind, PlainWay(fun, kwargs))
            return self._taped(made, fun, kind, PlainWay(fun, kwargs))

        return hooked

    def _taped(self, mapped: Any, fun: Any, kind: SiteKind, way: Way) -> Taped:
        file, line = user_line()
        names = [*names_of(fun)]
        variable = assigned_name(file, line)
        site = self.tape.site((shown(file), line, name_of(fun)), kind, names)
        if variable is not None:
            site.names[variable] = None
        if here.site is not None:  # it is made inside of another, while that is traced
            here.site.names.update(dict.fromkeys(site.names))
            if here.site.kind is SiteKind.JIT:
                here.site.kind = kind
        return Taped(mapped, fun, self, site, way)

    # ---- a call

    def call(
        self, mapped: Any, site: SiteTape, way: Way, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run one call and put it on tape."""
        with self._counter:
            number = self._next[site.index] = self._next.get(site.index, -1) + 1
        apart, given, inputs, inside = self._before(mapped, site, way, number, args, kwargs)
        try:
            if _compat.DELETED_INPUT_CRASHES:  # and would take what is on tape with it
                _compat.raise_if_deleted((args, kwargs))
            out = mapped(*args, **kwargs)
        except BaseException as error:
            first = str(error).partition("\n")[0][:200]
            said = f"{type(error).__name__}{f': {first}' * bool(first)}"
            self.tape.add(site, Sample(number, True, inputs, None, inside, error=said))
            raise
        outputs = replayed = None
        try:
            held = self._held(way.outputs(out))
            outputs = self.tape.put(site, number, "outputs", held)
            site.size = max(site.size, apart.size if apart else 0, _devices(out))
            if apart is not None and self.tutor is not None and inputs is not None:
                replayed = self._replayed(mapped, site, way, number, apart, inputs)
                wanted = self.tutor.outputs(site, number, inputs, held)
                if wanted is not None:
                    run = lambda *a, **k: self._held(way.outputs(mapped(*a, **k)))  # noqa: E731
                    site.hints.update(dict.fromkeys(swapped(run, way, apart, given, wanted)))
        except Exception as error:
            _fault(site, "outputs", error)
        self.tape.add(site, Sample(number, False, inputs, outputs, inside, replayed))
        return out

    def _before(
        self,
        mapped: Any,
        site: SiteTape,
        way: Way,
        number: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[Apart | None, list[Held], Values | None, Values | None]:
        """The inputs, and what the collectives exchange: before the call, which may free them."""
        held: list[Held] = []
        try:
            apart = way.apart(args, kwargs)
        except Exception:  # of the arguments: the call itself will say so
            return None, held, None, None
        inputs = inside = None
        try:
            held = self._held(apart.rows, self.tape.room_for("inputs"))
            inputs = self.tape.put(site, number, "inputs", held)
            if number < self.tape.tapped and self.oracle != "vmap":
                inside = self._tapped(mapped, site, number, apart)
        except Exception as error:
            _fault(site, "inputs", error)
        return apart, held, inputs, inside

    def _held(self, rows: Any, want: bool = True) -> list[Held]:
        return [self.tape.reader.read(path, leaf, axis, want) for path, leaf, axis in rows]

    def _tapped(self, mapped: Any, site: SiteTape, number: int, apart: Apart) -> Values | None:
        try:
            held, notes = taps.look(mapped, apart)
        except Exception as error:
            _fault(site, "collectives", error)
            return None
        site.unseen.update(dict.fromkeys(notes))
        return self.tape.put(site, number, "inside", held)

    def _replayed(
        self, mapped: Any, site: SiteTape, way: Way, number: int, apart: Apart, inputs: Values
    ) -> Values | None:
        assert self.tutor is not None
        given = self.tutor.inputs(site, number, apart, inputs)
        if given is None:
            return None
        args, kwargs = apart.rebuilt(given)
        held = self._held(way.outputs(mapped(*args, **kwargs)))
        return self.tape.put(site, number, "replayed", held)


def _fault(site: SiteTape, what: str, error: BaseException) -> None:
    first = str(error).partition("\n")[0][:120]
    site.unseen[f"{what} of a call, because of {type(error).__name__}: {first}"] = None


def _devices(out: Any) -> int:
    arrays = [leaf for leaf in jax.tree.leaves(out) if isinstance(leaf, jax.Array)]
    return max((len(leaf.sharding.device_set) for leaf in arrays), default=0)


def _is_ours(frame: types.FrameType) -> bool:
    """Is it JAX or we who call, or a library that is being imported?"""
    code = frame.f_code
    if code.co_filename.startswith(_OURS):
        return True
    return code.co_name == "<module>" and "site-packages" in code.co_filename
