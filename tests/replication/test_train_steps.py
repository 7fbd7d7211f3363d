"""Typical train steps: what must be proven is, and the claims are held against a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bench import steps

import shardlift
from tests.replication.checking import N, hold_against

rng = np.random.default_rng(0)


def array(leaf, same):
    shape = leaf.shape if same else (N, *leaf.shape)
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        values = 0.1 * rng.normal(size=shape)
    else:
        values = rng.integers(0, 9, shape)
    values = values.astype(leaf.dtype)
    return np.ascontiguousarray(np.broadcast_to(values, (N, *leaf.shape))) if same else values


@pytest.mark.slow
@pytest.mark.usefixtures("ranks_are_promoted")
@pytest.mark.parametrize("name", steps.CASES)
def test_everything_but_each_devices_own_loss_is_proven(name):
    small = {"MLP": 3, "ResNet": 2, "Transformer": 2, "Rollout": 4}
    case = steps.CASES[name](small[name])
    state = jax.tree.map(lambda leaf: array(leaf, True), case.args[0])
    batch = jax.tree.map(lambda leaf: array(leaf, False), case.args[1])
    step = shardlift.pmap(case.fun, steps.AXIS)
    found = shardlift.replication(step, state, batch, equal=0)
    assert [path for path, said in found.outputs.items() if not said] == ["[1]['own']"]
    hold_against(found, step(state, batch))
    # A state that is not replicated makes nothing but the averages equal.
    loose = shardlift.replication(step, state, batch)
    assert loose.proven[1] == {"loss": True, "norm": True, "own": False}
    assert not any(jax.tree.leaves(loose.proven[0]))
