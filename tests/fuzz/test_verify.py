"""Some of the pairs of `python -m tests.fuzz pairs`: verdicts are right, and causes true."""

import jax
import pytest

from tests.fuzz.verify import Tally, pairs_of
from tests.verify.recording import before, program

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, 5])
def test_pairs(seed: int) -> None:
    tally, recorded = Tally(), None
    with jax.numpy_dtype_promotion("standard"):  # as the programs of users
        for pair in pairs_of(seed):
            recorded = recorded or before(program(pair.old))
            tally.add(pair, seed, pair.judge(recorded))
    assert not tally.wrong, tally.summary()
    assert not tally.untrue, tally.summary()
    assert tally.counts["right cause"] >= 2
