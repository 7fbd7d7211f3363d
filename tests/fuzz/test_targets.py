"""A little of the fuzzing, for every change; `python -m tests.fuzz` does more of it."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutating import mutated
from tests.fuzz.targets import TARGETS

BOUNDED = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@BOUNDED
@given(seed=st.integers(0, 2**32))
def test_mutated_files(target: str, seed: int) -> None:
    TARGETS[target](mutated(target, random.Random(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@BOUNDED
@given(data=st.binary(max_size=300))
def test_any_bytes(target: str, data: bytes) -> None:
    TARGETS[target](data)
