"""Sites of one function, which the two programs have at a different number of places.

A helper of the program may map several functions of one name on one line, where the other program
has a line for each. The calls of these sites are then compared in their order, as those of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shardlift.capture import values
from shardlift.capture.schema import Form, Part, Sample, Site, Values
from shardlift.verify.compare.recorded import Recorded

PARTS = (Part.INPUTS, Part.OUTPUTS, Part.INSIDE)


def merge_same_names(before: Recorded, after: Recorded) -> tuple[Recorded, Recorded]:
    """Both sides; the sites of a name are one where there are as many calls of other sites."""
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


def _by_name(sites: Sequence[Site]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for k, site in enumerate(sites):
        if site.samples:
            groups.setdefault(site.function, []).append(k)
    return groups


def _orders(side: Recorded, numbers: Sequence[int]) -> int:
    """The number of calls of some sites; 0 if their order is not known."""
    samples = [sample for k in numbers for sample in side.capture.sites[k].samples]
    return len(samples) if all(sample.order for sample in samples) else 0


def _merge(side: Recorded, groups: Iterable[Sequence[int]]) -> Recorded:
    sites, arrays = list(side.capture.sites), dict(side.arrays)
    for numbers in groups:
        if len(numbers) < 2:
            continue
        first, samples = numbers[0], []
        forms: list[tuple[Form, ...]] = []
        calls = [(sample, k) for k in numbers for sample in sites[k].samples]
        for call, (sample, k) in enumerate(sorted(calls, key=lambda pair: pair[0].order)):
            samples.append(_moved(sample, call, len(forms)))
            for part in PARTS:
                of_part: Values | None = getattr(sample, part)
                if of_part is None:
                    continue
                forms.append(sites[k].forms[of_part.forms])
                for leaf in range(len(of_part.digests)):
                    bits = side.arrays.get(values.name_of(k, sample.call, part, leaf))
                    name = values.name_of(first, call, part, leaf)
                    arrays.pop(name, None)
                    if bits is not None:
                        arrays[name] = bits
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
            # Its calls are those of the first one: it counts as a part of that.
            sites[k] = replace(sites[k], samples=(), nested=sites[k].nested + 1)
    return Recorded(replace(side.capture, sites=tuple(sites)), arrays)


def _moved(sample: Sample, call: int, forms: int) -> Sample:
    """The sample with another number, and its forms from ``forms`` on."""
    parts: list[Values | None] = []
    for part in PARTS:
        of_part: Values | None = getattr(sample, part)
        parts.append(of_part and replace(of_part, forms=forms))
        forms += of_part is not None
    inputs, outputs, inside = parts
    return replace(sample, call=call, inputs=inputs, outputs=outputs, inside=inside, replayed=None)
