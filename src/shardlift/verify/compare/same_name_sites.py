"""Merges sites of one function name, if the two programs have a different number of them.

A helper of one program may map several functions of one name on one line, where the other program
has a line for each. The calls of these sites are then compared in their order, as one site.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from shardlift.capture import array_archive
from shardlift.capture.schema import ArrayForm, Part, Sample, SiteFacts, Values
from shardlift.verify.compare.captured_run import CapturedRun


def merge_same_names(before: CapturedRun, after: CapturedRun) -> tuple[CapturedRun, CapturedRun]:
    """Both sides; sites of a name are merged if their number differs and their calls do not."""
    left, right = _by_name(before.capture.sites), _by_name(after.capture.sites)
    names = [
        name
        for name in left.keys() & right.keys()
        if len(left[name]) != len(right[name])
        and _orders(before, left[name]) == _orders(after, right[name]) > 0
    ]
    return (
        _merge(before, [left[name] for name in names]),
        _merge(after, [right[name] for name in names]),
    )


def _by_name(sites: Sequence[SiteFacts]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for k, site in enumerate(sites):
        if site.samples:
            groups.setdefault(site.function, []).append(k)
    return groups


def _orders(side: CapturedRun, numbers: Sequence[int]) -> int:
    """The number of calls of some sites; 0 if their order is not known."""
    samples = [sample for k in numbers for sample in side.capture.sites[k].samples]
    return len(samples) if all(sample.order for sample in samples) else 0


def _merge(side: CapturedRun, groups: Iterable[Sequence[int]]) -> CapturedRun:
    sites, arrays = list(side.capture.sites), dict(side.arrays)
    for numbers in groups:
        if len(numbers) < 2:
            continue
        first = numbers[0]
        samples: list[Sample] = []
        forms: list[tuple[ArrayForm, ...]] = []
        calls = [(sample, k) for k in numbers for sample in sites[k].samples]
        for call, (sample, k) in enumerate(sorted(calls, key=lambda pair: pair[0].order)):
            parts: dict[str, Values] = {}
            for part in (Part.INPUTS, Part.OUTPUTS, Part.INSIDE):
                values: Values | None = getattr(sample, part)
                if values is None:
                    continue
                parts[part] = replace(values, forms=len(forms))
                forms.append(sites[k].forms[values.forms])
                for leaf in range(len(values.digests)):
                    bits = side.arrays.get(array_archive.name_of(k, sample.call, part, leaf))
                    name = array_archive.name_of(first, call, part, leaf)
                    arrays.pop(name, None)
                    if bits is not None:
                        arrays[name] = bits
            moved: Any = parts
            samples.append(replace(sample, call=call, **moved))
        rest = [sites[k] for k in numbers]
        sites[first] = replace(
            sites[first],
            samples=tuple(samples),
            forms=tuple(forms),
            axis_size=max(site.axis_size for site in rest),
            names=tuple(dict.fromkeys(name for site in rest for name in site.names)),
            unseen=tuple(dict.fromkeys(text for site in rest for text in site.unseen)),
        )
        for k in numbers[1:]:
            # The first one has its calls now, as if it had been called inside of that.
            sites[k] = replace(sites[k], samples=(), nested=sites[k].nested + 1)
    return CapturedRun(replace(side.capture, sites=tuple(sites)), arrays)
