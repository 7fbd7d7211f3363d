"""Sites that are no pmaps any more: ``jax.jit`` of something that calls ``jax.shard_map``.

So that a program can be recorded before and after its migration. Whether a jitted function is
one shows when it is first traced; all others are left as they are.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift import _compat
from shardlift.capture.schema import IN_PLACE, Leaf, Move, MovedBy, Placement, Proof, SiteKind
from shardlift.recording.call_inspection import compared, make_leaf, nbytes, placing_time
from shardlift.recording.caller import is_glue, user_line
from shardlift.recording.calls import PlainWay, Rows
from shardlift.recording.compilations import Signature, signature
from shardlift.recording.placements import placement_by, placement_of, spec_text
from shardlift.recording.process import MOST_DEVICES

_PARTS = ("lower", "trace", "eval_shape", "clear_cache")  # what a jitted function has


class Mapped(NamedTuple):
    """A jitted function that calls shard_map, as it was first traced."""

    jitted: Any
    fun: Any
    way: PlainWay
    donated: frozenset[int | str]  # positions, names
    mesh: Mesh
    specs: tuple[PartitionSpec | None, ...]  # of each argument; None: shard_map does not see it


Record = Callable[[Mapped, tuple[str, int]], Any]  # and where it was made


def recorded_jit(jit: Any, record: Record) -> Any:
    """``jit``, whose functions go through ``record`` if they turn out to call shard_map."""

    @functools.wraps(jit)
    def recording(*args: Any, **kwargs: Any) -> Any:
        made = jit(*args, **kwargs)
        if not is_users(sys._getframe(1)):
            return made
        fun, place = args[0] if args else kwargs.get("fun"), user_line()
        if callable(fun):
            return _undecided(made, fun, kwargs, place, record)
        # @jax.jit(static_argnums=0)
        return lambda fun: _undecided(made(fun), fun, kwargs, place, record)

    return recording


def is_users(frame: FrameType) -> bool:
    """Is it the program that calls, not JAX, this package or another that is installed?"""
    file = frame.f_code.co_filename
    return not is_glue(file) and "site-packages" not in file


def _undecided(
    jitted: Any, fun: Any, options: dict[str, Any], place: tuple[str, int], record: Record
) -> Any:
    """A function like ``jitted`` that finds out, on its first call, which of the two it is."""
    chosen: Any = None

    @functools.wraps(jitted)
    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal chosen
        if chosen is None and not _compat.tracing():
            with contextlib.suppress(Exception):  # the call itself will raise it
                mapped = _mapped(jitted, fun, options, args, kwargs)
                chosen = jitted if mapped is None else record(mapped, place)
        return (chosen or jitted)(*args, **kwargs)

    anything: Any = called
    for part in _PARTS:
        if hasattr(jitted, part):
            setattr(anything, part, getattr(jitted, part))
    return called


def _mapped(
    jitted: Any,
    fun: Any,
    options: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Mapped | None:
    jaxpr = jitted.trace(*args, **kwargs).jaxpr.jaxpr  # which the call itself will find
    found = next(_shard_maps(jaxpr), None)
    if found is None or not isinstance(found.params["mesh"], Mesh):
        return None
    seen = dict(zip(map(id, found.invars), found.params["in_specs"], strict=True))
    specs = tuple(seen.get(id(var)) for var in jaxpr.invars)
    donated = frozenset(
        [*_several(options, "donate_argnums"), *_several(options, "donate_argnames")]
    )
    return Mapped(jitted, fun, PlainWay(fun, options), donated, found.params["mesh"], specs)


def _several(options: dict[str, Any], name: str) -> tuple[Any, ...]:
    given = options.get(name)
    return (given,) if isinstance(given, (int, str)) else tuple(given or ())


def _shard_maps(jaxpr: Any) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "shard_map":
            yield eqn
        else:
            for inner in _compat.inner_jaxprs(eqn.params):
                yield from _shard_maps(inner)


class ShardMapLook:
    """One call of such a function, looked at as `Look` does at a pmap's."""

    def __init__(self, mapped: Mapped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.mapped, self.args, self.kwargs = mapped, args, kwargs
        self.name = getattr(mapped.fun, "__name__", type(mapped.fun).__name__)
        self.apart = mapped.way.apart(args, kwargs)
        self.paths = [path for path, _, _ in self.apart.rows]

    def compare_inputs(self) -> None:
        """Nothing: arguments have the layout that somebody chose."""

    def about(self) -> dict[str, Any]:
        """Mesh and devices."""
        mesh = self.mapped.mesh
        devices = [f"{device.platform}:{device.id}" for device in mesh.devices.flat]
        return {
            "kind": SiteKind.SHARD_MAP,
            "axis_name": str(mesh.axis_names[0]),
            "axis_size": int(mesh.devices.shape[0]),
            "mesh": {str(axis): size for axis, size in mesh.shape.items()},
            "devices": tuple(devices[:MOST_DEVICES]),
        }

    def arguments(self) -> list[Leaf]:
        """Every argument as it was given."""
        rows = zip(self.apart.rows, self._specs(), self._donated(), strict=True)
        return [
            self._leaf(path, leaf, spec, self._place(leaf, spec), donated)
            for (path, leaf, _), spec, donated in rows
        ]

    def outputs(self, out: Any, comparing: bool) -> list[Leaf]:
        """Every output; ``comparing`` waits for them."""
        rows = self.rows_of(out)
        seen = compared(rows) if comparing else {}
        return [
            self._leaf(path, leaf, _spec_of(leaf), IN_PLACE, False, seen.get(path))
            for path, leaf, _ in rows
        ]

    def rows_of(self, out: Any) -> Rows:
        """Path, leaf and the axis of every output that lies along the first axis of the mesh."""
        rows = self.mapped.way.outputs(out)
        return [(path, leaf, _axis(_spec_of(leaf))) for path, leaf, _ in rows]

    def kept(self) -> list[str]:
        """The donated arguments whose memory was not reused."""
        return [
            path
            for (path, leaf, _), donated in zip(self.apart.rows, self._donated(), strict=True)
            if donated and isinstance(leaf, jax.Array) and not leaf.is_deleted()
        ]

    def moves(self, already: Any) -> list[Move]:  # noqa: ARG002
        """The arguments that the program itself had to bring to its devices."""
        found = []
        for (path, leaf, _), spec in zip(self.apart.rows, self._specs(), strict=True):
            place = self._place(leaf, spec)
            if place != IN_PLACE:
                target = NamedSharding(self.mapped.mesh, spec or PartitionSpec())
                copies = self.mapped.mesh.size if _axis(spec) is None else 1
                size = copies * nbytes(leaf)
                found.append(Move(path, place, placement_by(target), size, 1, MovedBy.PROGRAM))
        return found

    def probe(self, paths: set[str]) -> float | None:
        """How long it takes to place these arguments."""
        return placing_time(
            [
                (leaf, NamedSharding(self.mapped.mesh, spec or PartitionSpec()))
                for (path, leaf, _), spec in zip(self.apart.rows, self._specs(), strict=True)
                if path in paths
            ]
        )

    def signature(self) -> Signature:
        """What decides which program the call needs."""
        leaves = {path: leaf for path, leaf, _ in self.apart.rows}
        structure = jax.tree.structure((self.args, self.kwargs))
        return signature(leaves, structure, {})

    def traced(self, fitted: list[Any] | None) -> Any:  # noqa: ARG002
        """The program that ran."""
        return self.mapped.jitted.trace(*self.args, **self.kwargs)

    def proofs(self, known: dict[str, Leaf], traced: Any) -> tuple[Proof, ...]:  # noqa: ARG002
        """None: its specs say it."""
        return ()

    def _specs(self) -> tuple[PartitionSpec | None, ...]:
        specs, count = self.mapped.specs, len(self.apart.rows)
        return specs if len(specs) == count else (None,) * count

    def _donated(self) -> list[bool]:
        flags: list[bool] = []
        for k, arg in enumerate(self.args):
            if k not in self.mapped.way.static:
                flags += [k in self.mapped.donated] * len(jax.tree.leaves(arg))
        for name, value in sorted(self.kwargs.items()):
            if name not in self.mapped.way.static_names:
                flags += [name in self.mapped.donated] * len(jax.tree.leaves(value))
        return flags

    def _place(self, leaf: Any, spec: PartitionSpec | None) -> Placement:
        if not isinstance(leaf, jax.Array) or spec is None:
            return placement_of(leaf) if not isinstance(leaf, jax.Array) else IN_PLACE
        target = NamedSharding(self.mapped.mesh, spec)
        fits = leaf.sharding.is_equivalent_to(target, leaf.ndim)
        return IN_PLACE if fits else placement_of(leaf)

    def _leaf(
        self,
        path: str,
        leaf: Any,
        spec: PartitionSpec | None,
        placement: Placement,
        donated: bool,
        seen: Any = None,
    ) -> Leaf:
        text = spec_text(spec or PartitionSpec())
        size = self.mapped.mesh.size
        return make_leaf(path, leaf, _axis(spec), text, size, placement, seen, donated)


def _spec_of(leaf: Any) -> PartitionSpec | None:
    lies = getattr(leaf, "sharding", None)
    return lies.spec if isinstance(lies, NamedSharding) else None


def _axis(spec: PartitionSpec | None) -> int | None:
    """The first axis that is spread over devices."""
    return next((k for k, name in enumerate(spec or ()) if name is not None), None)
