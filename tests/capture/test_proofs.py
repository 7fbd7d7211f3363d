"""Proofs of several programs, combined."""

from shardlift.capture.proofs import joined, of_all_programs
from shardlift.capture.schema import Proof

PROVEN = Proof("output", 1, (0,), arrays=("w",))
NOT_PROVEN = Proof("output", 2, None, "output['x']", "it is not reduced", ("x", "y"))


def test_a_part_is_proven_if_all_of_it_is() -> None:
    other = Proof("output", 1, (2, 0), arrays=("v",))
    assert joined(PROVEN, other) == Proof("output", 2, (0, 2), arrays=("w", "v"))
    for pair in ((PROVEN, NOT_PROVEN), (NOT_PROVEN, PROVEN)):
        both = joined(*pair)
        assert (both.needs, both.leaf, both.why) == (None, "output['x']", "it is not reduced")
        assert both.leaves == 3


def test_what_holds_for_all_programs() -> None:
    assert of_all_programs(None, [PROVEN]) == (PROVEN,)
    assert of_all_programs([PROVEN], [PROVEN]) == (PROVEN,)
    (both,) = of_all_programs([PROVEN], [NOT_PROVEN])
    assert (both.needs, both.leaves, both.arrays) == (None, 2, ())
    assert of_all_programs([PROVEN], [Proof("another", 1)]) == ()
