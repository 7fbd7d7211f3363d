"""Pairs sites of two runs by their names, and leaves of two trees that hold the same arrays."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from shardlift.capture.layouts import layout_of
from shardlift.capture.schema import ArrayForm, SiteFacts

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


_Same = Callable[[int, int], bool]
# `.loss`, `['loss']`, `[0]`, `[<flat index 0>]`
_PART = re.compile(r"\.(\w+)|\[(?:'([^']*)'|\"([^\"]*)\"|(?:<flat index )?(\d+)>?)\]")


class LeafPairs(NamedTuple):
    """Pairs of leaves, and the leaves of each side without a partner."""

    pairs: Pairs
    before: list[int]
    after: list[int]
    by_order: Pairs  # pairs by position alone


def pair_leaves(
    before: Sequence[ArrayForm], after: Sequence[ArrayForm], same: _Same = lambda *_: False
) -> LeafPairs:
    """Pair leaves by their names in any spelling, then by value, by shape and type, by order.

    ``same`` tells whether two leaves hold the same array. Each rule counts where it leaves no
    choice; the order counts only if both sides have as many leaves left.
    """
    rest = _Unpaired(before, after)
    if {form.path for form in before} == {form.path for form in after}:
        rest.take_by_key(lambda form: form.path)
    rest.take_by_key(lambda form: _parts(form) if _names(form) else None)
    rest.take_by_key(_names)
    # Leaves that hold the same array, leaves of the same path first.
    rest.take_only_choice(lambda i, j: before[i].path == after[j].path and same(i, j))
    rest.take_only_choice(lambda i, j: same(i, j) and rest.fits(i, j))
    if len(before) == len(after):
        rest.take_by_key(lambda form: form.path)
    rest.take_only_choice(rest.fits)
    by_order = rest.take_in_order()
    return LeafPairs(sorted(rest.pairs), rest.left, rest.right, by_order)


class _Unpaired:
    """The leaves of both sides that have no partner yet."""

    def __init__(self, before: Sequence[ArrayForm], after: Sequence[ArrayForm]) -> None:
        self.before, self.after = before, after
        self.left, self.right = list(range(len(before))), list(range(len(after)))
        self.pairs: Pairs = []

    def fits(self, i: int, j: int) -> bool:
        """Whether shapes and types of two leaves do not exclude that they are the same."""
        a, b = self.before[i], self.after[j]
        return a.dtype == b.dtype and layout_of(a.shape, b.shape, (a.axis, b.axis)) is not None

    def take_by_key(self, key: Callable[[ArrayForm], Hashable]) -> None:
        """Pair leaves whose key is the only one on both sides."""
        old = {k: key(self.before[k]) for k in self.left}
        new = {k: key(self.after[k]) for k in self.right}
        counts = Counter(old.values()), Counter(new.values())
        places = {name: j for j, name in new.items()}
        for i, name in old.items():
            if name and counts[0][name] == counts[1].get(name, 0) == 1:
                self._take(i, places[name])

    def take_only_choice(self, fits: _Same) -> None:
        """Pair leaves that fit each other and no other one."""
        if not self.left or not self.right:
            return
        choices = {i: [j for j in self.right if fits(i, j)] for i in self.left}
        counts = Counter(j for fitting in choices.values() for j in fitting)
        for i, fitting in choices.items():
            if len(fitting) == 1 and counts[fitting[0]] == 1:
                self._take(i, fitting[0])

    def take_in_order(self) -> Pairs:
        """Pair what is left in its order, if both sides have as many."""
        if len(self.left) != len(self.right):
            return []
        pairs = list(zip(self.left, self.right, strict=True))
        for i, j in pairs:
            self._take(i, j)
        return pairs

    def _take(self, i: int, j: int) -> None:
        self.pairs.append((i, j))
        self.left.remove(i)
        self.right.remove(j)


def _parts(form: ArrayForm) -> tuple[str, ...]:
    """The parts of a path, in one spelling.

    >>> _parts(ArrayForm("output[0].params['w']", "float32", ()))
    ('0', 'params', 'w')
    """
    parts = [next(filter(None, part), "") for part in _PART.findall(form.path)]
    argument = re.findall(r"^\w+", form.path)
    if argument != ["output"]:
        parts = [*argument, *parts]
    return tuple(part.casefold().replace("_", "") for part in parts)


def _names(form: ArrayForm) -> tuple[str, ...]:
    """The names in a path, without numbers."""
    return tuple(part for part in _parts(form) if not part.isdigit())
