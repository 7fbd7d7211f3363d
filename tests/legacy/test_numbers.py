"""Numbers of pmapped steps under `legacy`: this JAX's pmap bit by bit, 0.7.2 up to rounding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardlift
from tests.legacy import steps
from tests.legacy.record import HERE
from tests.rounding import assert_recorded

# Roundings of the longest step, three of Adam: sums over the batch, features and devices.
OPERATIONS = 3 * (8 + 6 + 8 + 20)


def pmapped(step):
    return jax.pmap(step, axis_name="i")


@pytest.fixture(scope="module")
def recorded():
    with np.load(HERE / "recorded" / "steps.npz") as file:
        return dict(file)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("step", "mode", "kind"), steps.CASES)
def test_steps_compute_what_they_did(step, mode, kind, recorded):
    with shardlift.legacy():
        now = steps.outputs(pmapped, step, mode, kind)
    stock = steps.outputs(pmapped, step, mode, kind)
    for name, array in now.items():
        assert np.isfinite(array).all()
        assert np.abs(array).max() > 0
        assert_recorded(array, recorded[name], OPERATIONS, name)
        assert array.tobytes() == stock[name].tobytes(), name


@pytest.mark.exhaustive
def test_debug_nans_notices_a_nan():
    with jax.debug_nans(True), shardlift.legacy(), pytest.raises(FloatingPointError):
        jax.pmap(lambda x: jnp.log(-x))(np.ones(steps.N, np.float32))
