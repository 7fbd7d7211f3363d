"""The names of a site, by which sites of two runs are paired."""

from collections.abc import Iterable, Sequence

from shardlift.capture.schema import SiteFacts

Pairs = list[tuple[int, int]]  # of indices into two lists
LAMBDA = "<lambda>"


def names_of(site: SiteFacts) -> set[str]:
    """All names of a site, without `<lambda>`."""
    return _meaningful(site.function, site.names)


def _meaningful(function: str, names: Iterable[str]) -> set[str]:
    return {function, *names} - {LAMBDA, ""}


def best_match(function: str, names: Iterable[str], others: Sequence[SiteFacts]) -> int | None:
    """The index of the site with the same function name, or else with a common name."""
    own = _meaningful(function, names)
    same = [k for k, other in enumerate(others) if own and other.function in own]
    shared = same or [k for k, other in enumerate(others) if own & names_of(other)]
    return shared[0] if shared else None
