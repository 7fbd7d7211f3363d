"""Pairs of sites, leaves and collectives of two programs that belong together."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardlift.capture.pairs import LAMBDA, Pairs, names_of
from shardlift.capture.schema import ArrayForm, ArrayRole, SiteFacts, SiteKind
from shardlift.verify.compare.captured_run import CapturedArray, same_values
from shardlift.verify.compare.collective_results import matters
from shardlift.verify.compare.leaf_comparison import Maps, fitting


def pair(before: Sequence[SiteFacts], after: Sequence[SiteFacts]) -> Pairs:
    """Pairs of indices: by name, then by kind and outputs. Only called sites are paired."""
    left = [k for k, site in enumerate(before) if site.samples]
    right = [k for k, site in enumerate(after) if site.samples]
    pairs: Pairs = []

    def take(fits: Callable[[SiteFacts, SiteFacts], bool]) -> None:
        for i in list(left):
            partner = next((j for j in right if fits(before[i], after[j])), None)
            if partner is not None:
                pairs.append((i, partner))
                left.remove(i)
                right.remove(partner)

    take(lambda a, b: a.function == b.function and bool({*a.names} & {*b.names} - {a.function}))
    take(lambda a, b: a.function == b.function and _same_calls(a, b))
    take(lambda a, b: a.function == b.function != LAMBDA and a.file == b.file)
    take(lambda a, b: a.function == b.function != LAMBDA)
    take(lambda a, b: bool(names_of(a) & names_of(b)))
    take(lambda a, b: SiteKind.PMAP in (a.kind, b.kind) and _alike(a, b))
    take(lambda a, b: SiteKind.PMAP in (a.kind, b.kind) and _are_lambdas_of_one_file(a, b))
    return sorted(pairs)


def _same_calls(before: SiteFacts, after: SiteFacts) -> bool:
    """Whether all calls have equal outputs."""
    pairs = zip(before.samples, after.samples, strict=False)
    return len(before.samples) == len(after.samples) and all(
        same_values(old.outputs, new.outputs) for old, new in pairs
    )


def _are_lambdas_of_one_file(before: SiteFacts, after: SiteFacts) -> bool:
    return before.function == after.function == LAMBDA and before.file == after.file


def _alike(before: SiteFacts, after: SiteFacts) -> bool:
    """Whether the outputs of the first calls have the same dtypes, and shapes that fit."""
    left, right = _first_outputs(before), _first_outputs(after)
    if left is None and right is None:  # every call failed
        return [call.error for call in before.samples] == [call.error for call in after.samples]
    if left is None or right is None or len(left) != len(right):
        return False
    pairs = zip(left, right, strict=True)
    maps = Maps(max(before.axis_size, after.axis_size))
    return all(a.dtype == b.dtype and fitting(a, b, maps) for a, b in pairs)


def _first_outputs(site: SiteFacts) -> tuple[ArrayForm, ...] | None:
    outputs = next((call.outputs for call in site.samples if call.outputs is not None), None)
    return None if outputs is None else site.forms[outputs.forms]


def pair_collectives(
    before: Sequence[CapturedArray], after: Sequence[CapturedArray]
) -> tuple[Pairs, list[int], list[int]]:
    """Pairs of results of collectives, and the results of each side that have no partner.

    Equal arrays are paired first, then arrays of the same line, then arrays of the same kind and
    size: an axis may have another name, and a line may be formatted differently.
    """
    left, right = (
        {k: x for k, x in enumerate(side) if x.form.role is ArrayRole.RESULT}
        for side in (before, after)
    )
    pairs: Pairs = []
    for key in _COLLECTIVE_KEYS:
        new = pair_by(left, right, key)
        pairs += new
        for side, used in ((left, {i for i, _ in new}), (right, {j for _, j in new})):
            for k in used:
                del side[k]
    return sorted(pairs), sorted(left), sorted(right)


def pair_by(left: Mapping[int, Any], right: Mapping[int, Any], key: Callable[[Any], Any]) -> Pairs:
    """Pairs of numbers with equal keys, in order."""
    places: dict[Any, list[int]] = {}
    for k, item in right.items():
        places.setdefault(key(item), []).append(k)
    pairs = []
    for k, item in left.items():
        waiting = places.get(key(item))
        if waiting:
            pairs.append((k, waiting.pop(0)))
    return pairs


def _kind(form: ArrayForm) -> tuple[str, tuple[int, ...]]:
    """The collective, and the shape of its result without axes of length 1."""
    return form.collective, tuple(n for n in form.shape if n != 1)


_COLLECTIVE_KEYS: tuple[Callable[[CapturedArray], Any], ...] = (
    lambda x: (_kind(x.form), x.form.dtype, x.digest, x.form.uses),
    lambda x: (_kind(x.form), x.form.dtype, x.digest, x.form.uses[:1]),
    lambda x: (_kind(x.form), x.form.backward, x.form.dtype, x.digest),
    lambda x: (_kind(x.form), x.form.backward, x.form.dtype, x.form.path, x.form.about),
    lambda x: (_kind(x.form), x.form.backward, x.form.dtype, matters(x.form)),
    lambda x: (_kind(x.form), x.form.backward, x.form.dtype),
    lambda x: _kind(x.form),
    lambda x: (x.form.collective, math.prod(x.form.shape)),
)
