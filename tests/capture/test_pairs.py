"""Which leaves of two trees hold the same arrays."""

import itertools

import pytest

from shardlift.capture.pairs import pair_leaves
from shardlift.capture.schema import ArrayForm


def _forms(names: tuple[str, ...]) -> list[ArrayForm]:
    return [ArrayForm(name, "float32", (8,)) for name in names]


@pytest.mark.parametrize("before", [*itertools.permutations("abc", 2)])
@pytest.mark.parametrize("after", [*itertools.permutations("abcd", 2)])
def test_leaves_with_the_same_name_are_always_paired(
    before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    paired = pair_leaves(_forms(before), _forms(after))
    assert (len(paired.pairs), paired.before, paired.after) == (2, [], [])
    names = {before[i]: after[j] for i, j in paired.pairs}
    for name in {*before} & {*after}:
        assert names[name] == name


def test_leaves_of_one_side_only() -> None:
    paired = pair_leaves(_forms(("a", "b", "c")), _forms(("c", "d")))
    assert paired == ([(2, 0)], [0, 1], [1], [])


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        (("output.loss", "output.acc"), ("output['acc']", "output['loss']"), [(0, 1), (1, 0)]),
        (("output.loss_sum", "output.n"), ("output['n']", "output['lossSum']"), [(0, 1), (1, 0)]),
        (("output[0]['w']", "output[1]"), ("output[0]", "output[1].w"), [(0, 1), (1, 0)]),
        (("output[0]", "output[1]"), ("output[1]", "output[0]"), [(0, 1), (1, 0)]),
        (("output['b']", "output['c']"), ("output[0]", "output[1]"), [(0, 1), (1, 0)]),  # by value
        (("output['a']", "output['d']"), ("output[0]", "output[1]"), [(0, 0), (1, 1)]),  # by order
        (("output[0]", "output[1]"), ("output[0]", "output[1]", "output[2]"), [(0, 1), (1, 0)]),
    ],
)
def test_leaves_are_paired_by_name_in_any_spelling_then_by_value(
    before: tuple[str, ...], after: tuple[str, ...], pairs: list[tuple[int, int]]
) -> None:
    equal = {("output['b']", "output[1]"), ("output['c']", "output[0]")}
    if len(after) == 3:
        equal = {("output[0]", "output[1]"), ("output[1]", "output[0]")}
    same = lambda i, j: (before[i], after[j]) in equal
    assert pair_leaves(_forms(before), _forms(after), same).pairs == pairs


def test_of_equal_arrays_those_of_the_same_path_are_paired() -> None:
    before, after = _forms(("[0]", "[1]")), _forms(("[1]", "[0]", "[2]"))
    assert pair_leaves(before, after, lambda i, j: True).pairs == [(0, 1), (1, 0)]


def test_leaves_are_not_paired_against_their_types() -> None:
    before = [ArrayForm(f"output.{k}", kind, ()) for k, kind in (("step", "int32"), ("w", "f4"))]
    after = [ArrayForm(f"output[{k}]", kind, ()) for k, kind in enumerate(("f4", "int32"))]
    paired = pair_leaves(before, after)
    assert (paired.pairs, paired.by_order) == ([(0, 1), (1, 0)], [])


def test_leaves_are_paired_by_the_axis_of_their_rows() -> None:
    before = [ArrayForm("output.w", "f4", (3, 8), axis=1), ArrayForm("output.n", "f4", (8,))]
    after = [ArrayForm("output[0]", "f4", ()), ArrayForm("output[1]", "f4", (3,))]
    paired = pair_leaves(before, after)
    assert (paired.pairs, paired.by_order) == ([(0, 1), (1, 0)], [])
