"""Checks of random keys, device indices and collectives, which explain why numbers differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from shardlift.capture.layouts import Array
from shardlift.capture.schema import ArrayForm, ArrayRole
from shardlift.capture.site_pairs import Pairs
from shardlift.verify.compare.collective_results import matters
from shardlift.verify.compare.pairs import pair_by_line

CHECKED = (ArrayRole.RANDOM_KEY, ArrayRole.AXIS_INDEX)


def pair_keys_and_indices(before: Sequence[ArrayForm], after: Sequence[ArrayForm]) -> Pairs:
    """Pair keys and indices: by source line, or else by order."""
    pairs: Pairs = []
    for role in CHECKED:
        places = [
            [k for k, form in enumerate(forms) if form.role is role] for forms in (before, after)
        ]
        same = pair_by_line([before[k] for k in places[0]], [after[k] for k in places[1]])
        pairs += [(places[0][i], places[1][j]) for i, j in same]
        if not same:
            pairs += list(zip(*places, strict=False))
    return pairs


def cause(form: ArrayForm, before: Array, after: Array) -> str:
    """The likely cause of a changed key or index; empty if it has not changed."""
    if before.shape != after.shape or np.array_equal(before, after):
        return ""
    line = f" ({form.about})" if form.about else ""
    rows = [len({row.tobytes() for row in x}) for x in (before, after)]
    if form.role is ArrayRole.RANDOM_KEY:
        if rows[1] == 1 < rows[0]:
            return f"one random key for all devices, where each had its own{line}"
        if rows[0] == 1 < rows[1]:
            return f"one random key per device, where all had the same{line}"
        return f"other random keys than before{line}"
    if before.ndim > 1:
        return f"a value computed from axis_index changed{line}"
    return (
        f"a value computed from axis_index is {_row(after)} on the devices, where it was "
        f"{_row(before)}: the axes of the mesh have another order{line}"
    )


def _row(array: Array) -> str:
    return " ".join(f"{number:g}" for number in array.tolist())


def only_one(before: Sequence[ArrayForm], after: Sequence[ArrayForm]) -> Iterator[tuple[str, str]]:
    """Which of the programs has collectives more often, and these in words."""
    results = [_results(forms) for forms in (before, after)]
    for kind in sorted({form.collective for forms in results for form in forms}):
        lines = [Counter(f.about for f in forms if f.collective == kind) for forms in results]
        for which, (own, other) in (("before", lines), ("after", lines[::-1])):
            more = own - other
            if own.total() > other.total() and more:
                text = next(iter(more))
                words = f"{kind} only {which}: {text}" if text else f"more {kind} {which}"
                yield which, words


def _results(forms: Sequence[ArrayForm]) -> list[ArrayForm]:
    """The results of collectives in the forward pass that outputs depend on."""
    results = [form for form in forms if form.role is ArrayRole.RESULT and not form.backward]
    return [form for form in results if matters(form)]
