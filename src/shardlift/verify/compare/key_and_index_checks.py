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
    is_moved = np.array_equal(np.sort(before), np.sort(after))
    order = ": the axes of the mesh have another order" * is_moved
    return (
        f"a value computed from axis_index is {_row(after)} on the devices, where it was "
        f"{_row(before)}{order}{line}"
    )


def _row(array: Array) -> str:
    return " ".join(f"{number:g}" for number in array.tolist())


def only_one(
    before: Sequence[ArrayForm], after: Sequence[ArrayForm], alone: Sequence[Sequence[int]]
) -> Iterator[tuple[str, str]]:
    """Which of the programs has collectives more often, and these in words.

    ``alone``: the results without a partner. Their line is named if it is the only one, or the
    first of them if the other program has no collective of that kind.
    """
    forms = before, after
    counts = [Counter(form.collective for form in _results(side)) for side in forms]
    for kind in sorted({*counts[0], *counts[1]}):
        for k, which in enumerate(("before", "after")):
            others = counts[1 - k][kind]
            if counts[k][kind] <= others:
                continue
            single = _results([forms[k][place] for place in alone[k]])
            lines = list(dict.fromkeys(f.about for f in single if f.collective == kind))
            if not lines or "" in lines or (others and len(lines) > 1):
                yield which, f"more {kind} {which}"
            else:
                more = f", and {len(lines) - 1} more" * (len(lines) > 1)
                yield which, f"{kind} only {which}: {lines[0]}{more}"


def _results(forms: Sequence[ArrayForm]) -> list[ArrayForm]:
    """The results of collectives in the forward pass that outputs depend on."""
    results = [form for form in forms if form.role is ArrayRole.RESULT and not form.backward]
    return [form for form in results if matters(form)]
