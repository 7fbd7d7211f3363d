"""The table of docs/gradients.md is what this JAX computes."""

import jax
import pytest
from bench.gradients import drift, measure, table

from tests.docs.pages import DOCS


@pytest.mark.slow
def test_the_table_is_what_is_measured() -> None:
    with jax.numpy_dtype_promotion("standard"):
        assert table(measure(4)) in (DOCS / "gradients.md").read_text()


def test_adam_hides_the_factor_and_sgd_does_not() -> None:
    with jax.numpy_dtype_promotion("standard"):
        apart = drift(steps=20)
    assert max(apart["Adam"]) < 1e-6
    assert min(apart["SGD"]) > 1
