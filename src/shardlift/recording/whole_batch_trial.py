"""A trial of a data-parallel step: does it compute the same for the whole batch as one device?

Over an axis of size 1, `psum`, `pmean`, `pmax` and `pmin` are the identity. So the step itself,
over an axis of size 1 and with the rows of all devices joined, is what `migrate --to jit` writes.
It is run once beside a recorded call. What the devices exchange and what the step returns is
compared: an optimiser that does not depend on the scale of a gradient hides a wrong one from the
outputs.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from shardlift import _compat
from shardlift.arrays.replicas import host_bits, unreplicate
from shardlift.capture.schema import ArrayRole, ResultUse, Untried, WholeBatchTrial
from shardlift.mapping.axes import Axis, shape_of
from shardlift.mapping.explanation import COLLECTIVES
from shardlift.recording.mapped_calls import HeldCall, PmapCall, nbytes

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
    """The arguments for a trial of this call. Raises UntriedError."""
    if jax.process_count() > 1:
        raise UntriedError(Untried.MANY_PROCESSES)
    if look.size < 2:
        raise UntriedError(Untried.ONE_DEVICE)
    same = [axis is None or _is_same(look, path) for path, _, axis in look.rows]
    owners = look.owners()
    joined = {owner for owner, equal in zip(owners, same, strict=True) if not equal}
    if not joined:
        raise UntriedError(Untried.EQUAL_ROWS)
    size = sum(
        nbytes(leaf) // (1 if owner in joined or axis is None else look.size)
        for (_, leaf, axis), owner in zip(look.rows, owners, strict=True)
    )
    if size > LARGEST:
        raise UntriedError(Untried.TOO_LARGE)
    held = [
        leaf if axis is None else _rows(leaf, axis) if owner in joined else _row(leaf, axis)
        for (_, leaf, axis), owner in zip(look.rows, owners, strict=True)
    ]
    donated = look.site.donated(look.call)
    kept = [_copied(leaf) if gone else leaf for leaf, gone in zip(held, donated, strict=True)]
    return HeldCall(kept, frozenset(joined))


def _is_same(look: PmapCall, path: str) -> bool:
    compared = look.compared.get(path)
    if compared is None:
        raise UntriedError(Untried.TOO_LARGE)  # to be compared in time
    return compared.equal


def _row(leaf: Any, axis: int) -> Any:
    return unreplicate(_moved(leaf, axis, 0))


def _moved(leaf: Any, source: int, target: int) -> Any:
    return leaf if source == target else jnp.moveaxis(leaf, source, target)


def _rows(leaf: Any, axis: int) -> Any:
    """An array of rows; a device has at least one of its own, or it has none to be joined."""
    shape = shape_of(leaf)
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    is_raw_key = leaf.dtype == np.uint32 and len(shape) == 2 and shape[1 - axis] in (2, 4)
    if is_key or is_raw_key or len(shape) < 2:
        raise UntriedError(Untried.RANDOM_KEYS if is_key or is_raw_key else Untried.NO_ROWS)
    return _moved(leaf, axis, 0)


def _copied(leaf: Any) -> Any:
    """A copy on the host, so that the call has the memory of the devices."""
    if isinstance(leaf, jax.Array) and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.array(leaf)
    return jnp.copy(leaf)


def try_whole_batch(look: PmapCall, traced: Any, held: HeldCall) -> WholeBatchTrial:
    """Run the step on the whole batch, and compare it with the program that ran.

    Raises UntriedError, and whatever the step raises on the whole batch.
    """
    _check(traced.jaxpr, look.label)
    with _as_it_was(), jax.transfer_guard("allow"):
        pairs = [*_pairs(look, traced, _placed(look, held))]
        largest: dict[str, float] = {}
        for pair in pairs:
            largest[pair.group] = max(largest.get(pair.group, 0.0), pair.largest)
        judged = [(*pair.judge(largest[pair.group]), pair.at) for pair in pairs]
        difference, bound, at = max(judged, key=lambda one: one[0] / one[1])
    return WholeBatchTrial(
        joined=tuple(sorted(k for k in held.joined if k is not None)),
        difference=difference,
        bound=bound,
        at=at,
        arrays=len(pairs),
    )


def _placed(look: PmapCall, held: HeldCall) -> HeldCall:
    """The arguments on the devices of the call: rows on each, or one copy on each."""
    sharded = [
        jax.device_put(leaf, look.plan.sharding(0 if _is_joined(held, owner, axis) else None))
        for leaf, owner, axis in zip(held.leaves, look.owners(), look.call.axes, strict=True)
    ]
    return held._replace(leaves=sharded)


def _is_joined(held: HeldCall, owner: int | None, axis: Axis) -> bool:
    return axis is not None and owner in held.joined


def _check(closed: Any, label: str) -> None:
    """Raise UntriedError unless the program is pure, and all that it exchanges is reduced."""
    from shardlift.recording.tape import taps
    from shardlift.recording.tape.result_uses import CALLBACKS

    exchanged = [e for e in _compat.equations(closed.jaxpr) if e.primitive.name in COLLECTIVES]
    if not exchanged:
        raise UntriedError(Untried.NO_COLLECTIVE)
    for eqn in exchanged:
        name, groups = eqn.primitive.name, eqn.params.get("axis_index_groups")
        if name not in _IDENTITIES or groups or _compat.collective_axes(eqn) != (label,):
            raise UntriedError(Untried.COLLECTIVE)
    if (
        closed.effects
        or taps.loud_effects(closed.jaxpr)
        or taps.has(closed.jaxpr, frozenset(CALLBACKS))
    ):
        raise UntriedError(Untried.SIDE_EFFECTS)


@contextlib.contextmanager
def _as_it_was() -> Iterator[None]:
    """The step is traced once more: the random numbers of the host that it draws are drawn anew."""
    numpy, python = np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        np.random.set_state(numpy)
        random.setstate(python)


class _Pair(NamedTuple):
    """An array that the devices computed, and the same of the whole batch."""

    at: str
    group: str  # arrays whose sums are of terms of one size
    devices: Any
    whole: Any

    @property
    def largest(self) -> float:
        """The largest number of it."""
        finite = [np.abs(x[np.isfinite(x)]) for x in map(_numbers, (self.devices, self.whole))]
        return float(max((x.max() for x in finite if x.size), default=0.0))

    def judge(self, largest: float) -> tuple[float, float]:
        """The difference, relative to the largest number of the group, and what is allowed."""
        bound = max(_RTOL, _ULPS * _precision(self.devices.dtype))
        devices, whole = _numbers(self.devices), _numbers(self.whole)
        if devices.shape != whole.shape:
            return MOST_DIFFERENT, bound
        same = (devices == whole) | (np.isnan(devices) & np.isnan(whole))
        if same.all():
            return 0.0, bound
        is_exact = not jnp.issubdtype(self.devices.dtype, jnp.inexact)
        error = np.abs(devices - whole)[~same].max()
        if is_exact or not np.isfinite(error):
            return MOST_DIFFERENT, bound
        scale = max(self.largest, _CANCELLED * largest)
        return float(error / scale), bound


def _numbers(array: Any) -> np.ndarray[Any, Any]:
    is_complex = jnp.issubdtype(array.dtype, jnp.complexfloating)
    return np.asarray(array, np.complex128 if is_complex else np.float64)


def _precision(dtype: Any) -> float:
    describe: Any = ml_dtypes.finfo
    return float(describe(dtype).eps) if jnp.issubdtype(dtype, jnp.inexact) else 0.0


def _pairs(look: PmapCall, traced: Any, held: HeldCall) -> Iterable[_Pair]:
    """What the devices exchange and return, each beside the same of the whole batch."""
    returned, exchanged = _on_devices(look, traced, held)
    outputs, results = _on_whole_batch(look, held)
    if exchanged.keys() != results.keys() or len(returned) != len(outputs):
        raise UntriedError(Untried.COLLECTIVE)
    for about, (rows, uses) in exchanged.items():
        at = f"{about.collective} #{about.number} in `{about.line}`"
        result, whole_uses = results[about]
        factor = _relative_factor(uses, whole_uses)
        row = rows[0] if factor == 1 else rows[0] * jnp.asarray(factor, rows.dtype)
        yield _Pair(at, about.line, host_bits(row), host_bits(result))
    for (path, rows, axis), whole in zip(returned, outputs, strict=True):
        devices = host_bits(rows) if axis is None else _joined_if_apart(rows, axis, whole)
        yield _Pair(path, "output", devices, host_bits(jnp.asarray(whole)))


def _joined_if_apart(rows: Any, axis: int, whole: Any) -> Any:
    """The value that all devices have; of an output that differs, the rows one after another."""
    bits = np.moveaxis(host_bits(rows), axis, 0)
    if (bits == bits[:1]).all() or bits.ndim < 2 or bits.shape[1:] == np.shape(whole):
        return bits[0]
    return bits.reshape(-1, *bits.shape[2:])


def _on_devices(look: PmapCall, traced: Any, held: HeldCall) -> tuple[Any, dict[Any, Any]]:
    """What the program returns, with paths and axes, and what is exchanged in it, with rows."""
    from shardlift.recording.tape.taps import Walk

    closed, walk = traced.jaxpr, Walk()
    size, owners = look.size, look.owners()

    def run(leaves: list[Any]) -> Any:
        walk.about.clear()
        rows = [
            leaf
            if axis is None
            else _moved(leaf if owner in held.joined else _repeated(leaf, size), 0, axis)
            for leaf, owner, axis in zip(leaves, owners, look.call.axes, strict=True)
        ]
        return walk.inside(closed.jaxpr, closed.consts, rows)

    returned, kept = jax.jit(run)(held.leaves)
    outputs = look.rows_of(jax.tree.unflatten(jax.tree.structure(traced.out_info), returned))
    return outputs, _results(walk, kept)


def _on_whole_batch(look: PmapCall, held: HeldCall) -> tuple[Any, dict[Any, Any]]:
    """What the step returns for the whole batch, over an axis of size 1, and the same results."""
    from shardlift.recording.tape.taps import Walk

    name, walk = look.site.options.axis_name, Walk()
    owners = look.owners()

    def step(leaves: list[Any]) -> Any:
        args, kwargs = look.rebuild(leaves)
        return look.site.get_fun()(*args, **kwargs)

    def run(leaves: list[Any]) -> Any:
        walk.about.clear()
        batch = [
            _joined(leaf) if _is_joined(held, owner, axis) else leaf
            for leaf, owner, axis in zip(leaves, owners, look.call.axes, strict=True)
        ]
        closed = jax.make_jaxpr(step, axis_env=[(name, 1)])(batch)
        return jax.vmap(
            lambda batch: walk.body(closed.jaxpr, closed.consts, batch),
            in_axes=None, out_axes=None, axis_name=name, axis_size=1,
        )(batch)  # fmt: skip

    outputs, kept = jax.jit(run)(held.leaves)
    return outputs, _results(walk, kept)


def _repeated(row: Any, size: int) -> Any:
    return jnp.broadcast_to(row, (size, *jnp.shape(row)))


def _joined(rows: Any) -> Any:
    return rows.reshape(-1, *rows.shape[2:])


def _results(walk: Any, kept: Sequence[Any]) -> dict[Any, Any]:
    if walk.unseen:
        raise UntriedError(Untried.COLLECTIVE)
    pairs = zip(walk.about, kept, strict=True)
    return {
        about._replace(uses=()): (array, about.uses)
        for about, array in pairs
        if about.role is ArrayRole.RESULT
    }


def _relative_factor(devices: Sequence[ResultUse], whole: Sequence[ResultUse]) -> float:
    """How many times more than those of the whole batch the results of the devices are used.

    It is 1/n for a mean, which is a psum and a division.
    """
    pairs = zip(reversed(devices), reversed(whole), strict=False)
    factors = [a.factor / b.factor for a, b in pairs if a.kind == b.kind and a.factor and b.factor]
    return factors[0] if factors else 1.0
