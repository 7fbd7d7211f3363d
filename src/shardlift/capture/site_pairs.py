"""Pairs the sites of two runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from shardlift.capture.schema import SiteFacts

__all__ = ["Pairs", "best_match", "names_of", "pair_sites"]

Pairs = list[tuple[int, int]]
_LAMBDA = "<lambda>"


def names_of(site: SiteFacts) -> set[str]:
    """All names of a site, without `<lambda>`."""
    return _meaningful(site.function, site.names)


def _meaningful(function: str, names: Iterable[str]) -> set[str]:
    return {function, *names} - {_LAMBDA, ""}


def best_match(function: str, names: Iterable[str], others: Sequence[SiteFacts]) -> int | None:
    """The index of the site with the same function name, or else with a common name."""
    own = _meaningful(function, names)
    same = [k for k, other in enumerate(others) if own and other.function in own]
    shared = same or [k for k, other in enumerate(others) if own & names_of(other)]
    return shared[0] if shared else None


def pair_sites(before: Sequence[SiteFacts], after: Sequence[SiteFacts]) -> Pairs:
    """Pairs of indices into the two lists: by file and function, else by function.

    If both lists have as many sites of a name, these are paired in order; otherwise only sites on
    the same line are.
    """
    left, right = list(range(len(before))), list(range(len(after)))
    pairs: Pairs = []
    keys: tuple[Callable[[SiteFacts], Hashable], ...] = (
        lambda site: (site.file, site.function),
        lambda site: site.function,
    )
    for key in keys:
        old, new = _groups(before, left, key), _groups(after, right, key)
        for name in (old.keys() & new.keys()) - {_LAMBDA}:
            pairs += _pair_group(before, old[name], after, new[name])
        taken = {i for i, _ in pairs}, {j for _, j in pairs}
        left = [i for i in left if i not in taken[0]]
        right = [j for j in right if j not in taken[1]]
    return sorted(pairs)


def _groups(
    sites: Sequence[SiteFacts], places: Sequence[int], key: Callable[[SiteFacts], Hashable]
) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for k in places:
        groups.setdefault(key(sites[k]), []).append(k)
    return groups


def _pair_group(
    before: Sequence[SiteFacts], old: list[int], after: Sequence[SiteFacts], new: list[int]
) -> Pairs:
    several_lambdas = before[old[0]].function == _LAMBDA and len(old) > 1
    if len(old) == len(new) and not several_lambdas:
        return list(zip(old, new, strict=True))
    # On one line, several are paired in their order.
    lines = _groups(after, new, lambda site: site.key)
    return [
        pair
        for key, places in _groups(before, old, lambda site: site.key).items()
        for pair in zip(places, lines.get(key, ()), strict=False)
    ]
