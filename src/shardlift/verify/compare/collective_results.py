"""Results of two collectives: whether the same operations get the same numbers of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shardlift.capture.layouts import Array
from shardlift.capture.schema import RESULT_USE, ArrayForm, ArrayRole, ResultUse
from shardlift.verify.compare import causes
from shardlift.verify.compare.array_distance import is_float, wide
from shardlift.verify.compare.captured_run import ArrayPair, CapturedArray
from shardlift.verify.compare.leaf_comparison import nearly

_COLLECTIVES = frozenset({"psum", "pmax", "pmin", "all_gather", "all_to_all", "ppermute"})
_NO_USES = (ResultUse(RESULT_USE),)


SUMMED_TWICE = (
    "check_vma with unvarying parameters: shard_map has already summed the gradient over the "
    "devices before this line"
)


class CollectiveResult(NamedTuple):
    """The result of a collective, with the factors of its uses that the program computed."""

    form: ArrayForm
    array: Array
    factors: Array | None = None

    def views(self, kind: str) -> list[Array]:
        """What operations of a kind get."""
        uses = self.form.uses or _NO_USES
        return [self._view(k, use) for k, use in enumerate(uses) if use.kind == kind]

    def _view(self, number: int, use: ResultUse) -> Array:
        factor: Array | float = use.factor
        if factor == 1 and self.factors is None:
            return self.array
        if self.factors is not None:
            computed = wide(self.factors[..., number])
            rest = (1,) * (self.array.ndim - computed.ndim)
            factor = factor * computed.reshape(*computed.shape, *rest)
        kind = self.array.dtype
        numbers = self.array.astype(np.complex128) if kind.kind == "c" else wide(self.array)
        product: Array = numbers * factor
        return product.astype(kind if kind.kind == "c" or is_float(kind) else np.float32)


def difference(before: CollectiveResult, after: CollectiveResult, devices: int) -> ArrayPair | None:
    """What an operation gets before, and another number after; None if all get the same.

    A pmean may be written as psum and a division anywhere before the next operation: so the
    operations decide. If the two programs have no operation in common, one number in common is
    enough; and if both collectives return the same, only the number of devices is a mistake.
    """
    kinds = _kinds(before.form) & _kinds(after.form)
    whole = before.views(RESULT_USE)[0], _like(after.views(RESULT_USE)[0], before.array)
    if not kinds:
        views = _all_views(before), _all_views(after)
        same = _is_same(*whole) or any(
            _is_same(left, _like(right, left)) for left in views[0] for right in views[1]
        )
        return None if same else whole
    bad = [pair for kind in sorted(kinds) if (pair := _unequal(before, after, kind)) is not None]
    if bad and _is_same(*whole):
        factors = [causes.constant_factor(*_where_unequal(pair)) for pair in bad]
        bad = [
            pair
            for pair, factor in zip(bad, factors, strict=True)
            if factor is not None and causes.is_of_devices(factor, devices)
        ]
    return bad[0] if bad else None


def _where_unequal(pair: ArrayPair) -> ArrayPair:
    """The numbers that differ: in a loop, the numbers of some iterations."""
    before, after = (causes.numbers_of(array) for array in pair)
    if before.shape != after.shape:
        return pair
    unequal = ~np.isclose(before, after, rtol=1e-5)
    return pair[0].ravel()[unequal], pair[1].ravel()[unequal]


def is_sum_of(result: Array, rows: Array) -> bool:
    """Whether a result is the sum of rows over the devices, and over the first of their axes."""
    if rows.shape[rows.ndim - result.ndim + 1 :] != result.shape[1:]:
        return False
    total = wide(rows).reshape(-1, *result.shape[1:]).sum(0)
    return bool(np.any(total)) and np.allclose(wide(result)[0], total, rtol=causes.NEARLY)


def cause_of(
    before: CollectiveResult,
    after: CollectiveResult,
    unequal: ArrayPair,
    is_summed_before: bool,
    devices: int,
) -> str:
    """Why an operation gets another number, if that is a factor; empty if it is none.

    ``is_summed_before``: only the backward pass after has summed it already. The collective
    itself is the cause if its sum is the same; otherwise what it sums is.
    """
    unequal = _where_unequal(unequal)
    factor = causes.constant_factor(*unequal)
    if factor is None:
        return ""
    means = [result.form.uses[0].factor if result.form.uses else 1.0 for result in (before, after)]
    size = causes.size_of(factor)
    if _is_same(before.array, _like(after.array, before.array)):
        if abs(means[1] / means[0] / factor - 1) > causes.NEARLY:
            return f"{size}: by a factor after the collective"
        wrong, right = ("psum", "pmean") if means[1] > means[0] else ("pmean", "psum")
        return f"{size}: {wrong} instead of {right}"
    if causes.device_factor(*unequal, None, devices) is None:
        return ""
    return f"{size}: {SUMMED_TWICE if is_summed_before else 'what is summed is'}"


def _unequal(before: CollectiveResult, after: CollectiveResult, kind: str) -> ArrayPair | None:
    """What operations of one kind get, if some of the side with fewer of them has no equal."""
    left, right = before.views(kind), after.views(kind)
    right = [_like(array, before.array) for array in right]
    few, many = (left, right) if len(left) <= len(right) else (right, left)
    found = all(any(_is_same(a, b) for b in many) for a in few)
    return None if found else (left[0], right[0])


def _like(array: Array, other: Array) -> Array:
    return array.reshape(other.shape) if array.size == other.size else array


def _is_same(before: Array, after: Array) -> bool:
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    return bool(np.array_equal(before, after)) or nearly(before, after)


def _all_views(result: CollectiveResult) -> list[Array]:
    return [view for kind in sorted(_kinds(result.form)) for view in result.views(kind)]


def _kinds(form: ArrayForm) -> set[str]:
    return {use.kind for use in form.uses} - {RESULT_USE}


def matters(form: ArrayForm) -> bool:
    """Whether an output depends on a result, and not only by other collectives."""
    return not form.uses or bool(_kinds(form) - _COLLECTIVES)


def is_only_returned(form: ArrayForm) -> bool:
    """Whether nothing is computed of a result."""
    return _kinds(form) == {"returned"}


def factors_of(side: Sequence[CapturedArray], result: CapturedArray) -> CapturedArray | None:
    """The computed factors of the uses of a result; None if there are none."""
    path = f"{result.form.path.rpartition(',')[0]}, {ArrayRole.FACTORS}"
    arrays = (
        array
        for array in side
        if array.form.role is ArrayRole.FACTORS
        and (array.form.path, array.form.about) == (path, result.form.about)
    )
    return next(arrays, None)


def read_result(array: CapturedArray, side: Sequence[CapturedArray]) -> CollectiveResult | None:
    """The result of a collective, if its values and the factors of its uses were kept."""
    computed = factors_of(side, array)
    values, factors = array.values(), computed.values() if computed else None
    if values is None or (computed is not None and factors is None):
        return None
    return CollectiveResult(array.form, values, factors)
