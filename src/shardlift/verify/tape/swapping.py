"""Two arguments in each other's place: tried, where a function gives something else than it did.

It was given the same arrays, so a spec, a position or a static argument may be another's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from shardlift.recording.calls import Apart, Way
from shardlift.verify.compare.layouts import same_arrays
from shardlift.verify.tape.host_arrays import Held
from shardlift.verify.tape.reference_run import placed

TRIES = 10  # programs to compile, at most


def swapped(
    run: Callable[..., list[Held]],
    way: Way,
    apart: Apart,
    given: Sequence[Held],
    wanted: Sequence[str],
) -> Iterator[str]:
    """What gives the wanted digests, in words; tries no more than a few programs."""
    if any(one.array is None for one in given):
        return
    tries = 0
    for said, args, leaves in _others(apart, given):
        tries += 1
        if tries > TRIES:
            return
        try:
            changed = way.apart(args, dict(apart.kwargs))
            again, named = changed.rebuilt(leaves)
            outputs = run(*again, **named)
        except Exception:
            continue
        if same_arrays([one.digest for one in outputs], wanted):
            yield said
            return


def _others(
    apart: Apart, given: Sequence[Held]
) -> Iterator[tuple[str, tuple[Any, ...], list[Any]]]:
    """Calls with two static arguments, or two arrays of one shape and type, exchanged."""

    def fresh() -> list[Any]:
        """For each call anew: it may donate them, and JAX 0.10.2 crashes on what was donated."""
        pairs = zip(given, apart.leaves, strict=True)
        return [placed(one.array, leaf) for one, leaf in pairs if one.array is not None]

    for i, j in combinations(apart.static, 2):
        if type(apart.args[i]) is type(apart.args[j]) and apart.args[i] != apart.args[j]:
            names = f"static arguments {i} and {j} ({apart.args[i]!r}, {apart.args[j]!r})"
            yield _sentence(names), _exchanged(apart.args, i, j), fresh()
    pairs = [
        (i, j)
        for i, j in combinations(range(len(given)), 2)
        if _alike(given[i], given[j]) and given[i].digest != given[j].digest
    ]
    for i, j in pairs:
        names = f"{given[i].form.path} and {given[j].form.path}"
        yield _sentence(names), apart.args, list(_exchanged(tuple(fresh()), i, j))
    for turned in (*pairs, *((k,) for k in range(len(given)))):
        if all(_is_square(given[k]) for k in turned):
            names = " and ".join(given[k].form.path for k in turned)
            said = f"{names}: another axis is split; transposed, they give what was given before"
            yield said, apart.args, [_turned(x, k in turned) for k, x in enumerate(fresh())]


def _sentence(names: str) -> str:
    return f"{names} are in each other's place: exchanged, they give what was given before"


def _is_square(one: Held) -> bool:
    shape = one.form.shape
    return len(shape) > 1 and shape[0] == shape[1] and not one.form.dtype.startswith("key<")


def _turned(array: Any, turn: bool) -> Any:
    """With its first two axes exchanged, lying as it did."""
    if not turn:
        return array
    return placed(np.swapaxes(np.asarray(array), 0, 1), array)


def _alike(one: Held, other: Held) -> bool:
    return (one.form.shape, one.form.dtype) == (other.form.shape, other.form.dtype)


def _exchanged(values: tuple[Any, ...], i: int, j: int) -> tuple[Any, ...]:
    found = list(values)
    found[i], found[j] = values[j], values[i]
    return tuple(found)
