"""A trial of a data-parallel step: does it compute the same for the whole batch as one device?

Over an axis of size 1, `psum`, `pmean`, `pmax` and `pmin` are the identity. So the step itself,
over an axis of size 1 and with the rows of all devices joined, is what `migrate --to jit` writes.
It is run once beside a recorded call. What the devices exchange and what the step returns is
compared: an optimiser that does not depend on the scale of a gradient hides a wrong one from the
outputs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from shardlift import _compat
from shardlift.arrays.replicas import host_bits, unreplicate
from shardlift.capture.schema import ArrayRole, ResultUse, Untried, WholeBatchTrial
from shardlift.mapping.axes import shape_of
from shardlift.mapping.explanation import COLLECTIVES
from shardlift.recording.mapped_calls import HeldCall, PmapCall, nbytes
from shardlift.recording.tape import taps

LARGEST = 2**30  # bytes of arguments; what is the same on all devices counts once
SLOWEST = 10.0  # seconds that the program took to compile: two more of that size are compiled
MOST_DIFFERENT = 2.0  # of numbers, relative to the larger one; of anything else that is not equal
_IDENTITIES = {"psum", "psum_invariant", "pmax", "pmin"}  # over an axis of size 1
# What adding in another order may change, relative to the largest number of an array; of shorter
# types, in units of their precision.
_RTOL, _ULPS = 1e-5, 4
# Sums of terms that cancel are compared with the largest array that is exchanged on their line.
_CANCELLED = 0.05


class UntriedError(Exception):
    """There is no trial, for a reason."""

    def __init__(self, reason: Untried) -> None:
        super().__init__(reason)
        self.reason = reason


def hold(look: PmapCall) -> HeldCall:
    """The arguments for a trial of this call, which may free them. Raises UntriedError."""
    if jax.process_count() > 1:
        raise UntriedError(Untried.MANY_PROCESSES)
    if look.size < 2:
        raise UntriedError(Untried.ONE_DEVICE)
    if any(axis is not None and path not in look.compared for path, _, axis in look.rows):
        raise UntriedError(Untried.TOO_LARGE)  # to be compared in time
    owned = list(zip(look.owners(), look.rows, strict=True))
    apart = {
        k for k, (path, _, axis) in owned if axis is not None and not look.compared[path].equal
    }
    if not apart:
        raise UntriedError(Untried.EQUAL_ROWS)
    joined = [axis is not None and owner in apart for owner, (_, _, axis) in owned]
    rows = list(zip(look.rows, joined, look.site.donated(look.call), strict=True))
    copies = (1 if join or axis is None else look.size for (_, _, axis), join, _ in rows)
    if sum(nbytes(x) // n for x, n in zip(look.leaves, copies, strict=True)) > LARGEST:
        raise UntriedError(Untried.TOO_LARGE)
    leaves = [_held(leaf, axis, join, gone) for (_, leaf, axis), join, gone in rows]
    return HeldCall(leaves, joined, tuple(sorted(apart)))


def _held(leaf: Any, axis: int | None, join: bool, donated: bool) -> Any:
    """All rows of an argument if they are to be joined, else the first one."""
    kept = leaf
    if axis is not None:
        kept = leaf if axis == 0 else jnp.moveaxis(leaf, axis, 0)
        kept = _with_rows(kept) if join else unreplicate(kept)
    return jnp.copy(kept) if donated else kept


def _with_rows(leaf: Any) -> Any:
    """The argument itself; UntriedError if its rows cannot be joined."""
    shape = shape_of(leaf)
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    is_raw_key = leaf.dtype == np.uint32 and len(shape) == 2 and shape[1] in (2, 4)
    if is_key or is_raw_key:
        raise UntriedError(Untried.RANDOM_KEYS)
    if len(shape) < 2:
        raise UntriedError(Untried.NO_ROWS)
    return leaf


def try_whole_batch(look: PmapCall, traced: Any, held: HeldCall) -> WholeBatchTrial:
    """Run the step on the whole batch, and compare it with the program that ran.

    Raises UntriedError, and whatever the step raises on the whole batch.
    """
    _check(traced.jaxpr, look.plan.label)
    numpy, python = np.random.get_state(), random.getstate()
    try:  # the step is traced once more: what it draws on the host is drawn anew
        with jax.transfer_guard("allow"):
            places = [look.plan.sharding(0 if rows else None) for rows in held.joined]
            held = held._replace(leaves=[*map(jax.device_put, held.leaves, places)])
            pairs = [*_pairs(look, traced, held)]
    finally:
        np.random.set_state(numpy)
        random.setstate(python)
    largest: dict[str, float] = {}
    for pair in pairs:
        largest[pair.group] = max(largest.get(pair.group, 0.0), pair.largest)
    distances = [pair.distance(largest[pair.group]) for pair in pairs]
    difference, worst = max(
        zip(distances, pairs, strict=True), key=lambda compared: compared[0] / compared[1].bound
    )
    return WholeBatchTrial(
        joined=held.positions, difference=difference, bound=worst.bound, at=worst.at
    )


def _check(closed: Any, label: str) -> None:
    """Raise UntriedError unless the program is pure, and all that it exchanges is reduced."""
    exchanged = [e for e in _compat.equations(closed.jaxpr) if e.primitive.name in COLLECTIVES]
    if not exchanged:
        raise UntriedError(Untried.NO_COLLECTIVE)
    for eqn in exchanged:
        name, groups = eqn.primitive.name, eqn.params.get("axis_index_groups")
        if name not in _IDENTITIES or groups or _compat.collective_axes(eqn) != (label,):
            raise UntriedError(Untried.COLLECTIVE)
    if closed.effects or any(map(taps.calls_back, _compat.equations(closed.jaxpr))):
        raise UntriedError(Untried.SIDE_EFFECTS)


class _Pair(NamedTuple):
    """An array that the devices computed, and the same of the whole batch."""

    at: str
    group: str  # arrays whose sums are of terms of one size
    devices: Any
    whole: Any

    @property
    def is_exact(self) -> bool:
        """Whether nothing is rounded."""
        return not jnp.issubdtype(self.devices.dtype, jnp.inexact)

    @property
    def bound(self) -> float:
        """The difference that is allowed, relative to the largest number."""
        describe = cast("Any", jnp.finfo)
        precision = 0.0 if self.is_exact else float(describe(self.devices.dtype).eps)
        return max(_RTOL, _ULPS * precision)

    @property
    def largest(self) -> float:
        """The largest number of it."""
        numbers = np.concatenate([np.abs(_numbers(x)).ravel() for x in (self.devices, self.whole)])
        return float(numbers[np.isfinite(numbers)].max(initial=0.0))

    def distance(self, largest: float) -> float:
        """The difference, relative to the largest number, or to a part of the group's largest."""
        devices, whole = _numbers(self.devices), _numbers(self.whole)
        if devices.shape != whole.shape:
            return MOST_DIFFERENT
        same = (devices == whole) | (np.isnan(devices) & np.isnan(whole))
        error = np.abs(devices - whole)[~same].max(initial=0.0)
        if error and (self.is_exact or not np.isfinite(error)):
            return MOST_DIFFERENT
        return float(error / max(self.largest, _CANCELLED * largest)) if error else 0.0


def _numbers(array: Any) -> np.ndarray[Any, Any]:
    is_complex = jnp.issubdtype(array.dtype, jnp.complexfloating)
    return np.asarray(array, np.complex128 if is_complex else np.float64)


def _pairs(look: PmapCall, traced: Any, held: HeldCall) -> Iterator[_Pair]:
    """What the devices exchange and return, each beside the same of the whole batch."""
    returned, exchanged = _on_devices(look, traced, held)
    outputs, results = _on_whole_batch(look, held)
    if exchanged.keys() != results.keys() or len(returned) != len(outputs):
        raise UntriedError(Untried.COLLECTIVE)
    for about, (rows, uses) in exchanged.items():
        at = f"{about.path.removesuffix(', result')} in `{about.about}`"
        result, whole_uses = results[about]
        factor = _relative_factor(uses, whole_uses)
        row = rows[0] if factor == 1 else rows[0] * jnp.asarray(factor, rows.dtype)
        yield _Pair(at, about.about, host_bits(row), host_bits(result))
    for (path, rows, axis), whole in zip(returned, outputs, strict=True):
        bits = host_bits(rows)
        if axis is not None:
            bits = np.moveaxis(bits, axis, 0)
            is_same = (bits == bits[:1]).all() or bits.ndim < 2 or bits.shape[1:] == np.shape(whole)
            # Of an output that differs between devices, the rows one after another.
            bits = bits[0] if is_same else bits.reshape(-1, *bits.shape[2:])
        yield _Pair(path, "output", bits, host_bits(jnp.asarray(whole)))


def _on_devices(look: PmapCall, traced: Any, held: HeldCall) -> tuple[Any, dict[Any, Any]]:
    """What the program returns, with paths and axes, and what is exchanged in it, with rows."""
    closed = traced.jaxpr

    def run(walk: taps.Walk, leaves: list[Any]) -> Any:
        given: list[Any] = []
        for leaf, rows, axis in zip(leaves, held.joined, look.call.axes, strict=True):
            if axis is not None:
                all_rows = leaf if rows else jnp.broadcast_to(leaf, (look.size, *jnp.shape(leaf)))
                leaf = jnp.moveaxis(all_rows, 0, axis)
            given.append(leaf)
        return walk.inside(closed.jaxpr, closed.consts, given)

    returned, exchanged = _run(run, held)
    outputs = jax.tree.unflatten(jax.tree.structure(traced.out_info), returned)
    return look.rows_of(outputs), exchanged


def _on_whole_batch(look: PmapCall, held: HeldCall) -> tuple[Any, dict[Any, Any]]:
    """What the step returns for the whole batch, over an axis of size 1, and the same results."""
    name = look.site.options.axis_name

    def step(leaves: list[Any]) -> Any:
        args, kwargs = look.rebuild(leaves)
        return look.site.get_fun()(*args, **kwargs)

    def run(walk: taps.Walk, leaves: list[Any]) -> Any:
        batch = [
            leaf.reshape(-1, *leaf.shape[2:]) if rows else leaf
            for leaf, rows in zip(leaves, held.joined, strict=True)
        ]
        closed = jax.make_jaxpr(step, axis_env=[(name, 1)])(batch)
        return jax.vmap(
            lambda batch: walk.body(closed.jaxpr, closed.consts, batch),
            in_axes=None, out_axes=None, axis_name=name, axis_size=1,
        )(batch)  # fmt: skip

    return _run(run, held)


def _run(
    program: Callable[[taps.Walk, list[Any]], Any], held: HeldCall
) -> tuple[Any, dict[Any, Any]]:
    """The outputs of a program, and the results of its collectives with their uses."""
    walk = taps.Walk()

    def run(leaves: list[Any]) -> Any:
        walk.about.clear()
        return program(walk, leaves)

    outputs, kept = jax.jit(run)(held.leaves)
    if walk.unseen:
        raise UntriedError(Untried.COLLECTIVE)
    return outputs, {
        replace(about, uses=()): (array, about.uses)
        for about, array in zip(walk.about, kept, strict=True)
        if about.role is ArrayRole.RESULT
    }


def _relative_factor(devices: Sequence[ResultUse], whole: Sequence[ResultUse]) -> float:
    """How many times as often the devices' results are used as the results of the whole batch.

    It is 1/n for a mean, which is a psum and a division.
    """
    pairs = zip(reversed(devices), reversed(whole), strict=False)
    factors = [a.factor / b.factor for a, b in pairs if a.kind == b.kind and a.factor and b.factor]
    return factors[0] if factors else 1.0
