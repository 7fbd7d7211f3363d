"""NaN, infinity, nothing, and axes of no length, wherever arrays go."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardlift
from shardlift.capture import files
from shardlift.facts import Recorder
from shardlift.report import machine
from shardlift.report.html import page
from shardlift.report.view import view_of

N = 8
ODD = {
    "nan": np.full((N, 2), np.nan, np.float32),
    "infinity": np.array([np.inf, -np.inf] * (N // 2), np.float32),
    "no length": np.zeros((N, 0), np.float32),
    "no length inside": np.zeros((N, 3, 0, 2), np.float32),
    "nothing beside it": {"a": np.zeros((N, 0), np.float32), "b": (), "c": None},
}


def bits(tree):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize("value", ODD.values(), ids=list(ODD))
def test_it_goes_through_as_it_is(value):
    assert bits(shardlift.pmap(lambda x: x)(value)) == bits(value)
    assert bits(shardlift.unreplicate(shardlift.replicate(value))) == bits(value)
    copied = shardlift.device_put_replicated(value, jax.local_devices())
    assert bits(shardlift.unreplicate(copied)) == bits(value)
    (placed,) = shardlift.prefetch_to_device(iter([value]), 2)
    assert bits(placed) == bits(value)
    shardlift.show(value)
    jax.tree.map(lambda x: x.shape, shardlift.shard(value))


def test_what_cannot_be_mapped_says_why():
    with pytest.raises(ValueError, match="at least one argument with a mapped axis"):
        shardlift.pmap(lambda x: x)({})
    for empty in (np.zeros((0, 2)), jnp.zeros((0, 2))):
        with pytest.raises(ValueError, match=r"\['a'\] has shape \(0, 2\): it has no rows"):
            shardlift.unreplicate({"a": empty, "b": np.ones((2,))})
    with pytest.raises(ValueError, match="would yield nothing"):
        list(shardlift.prefetch_to_device(iter([1]), 0))
    with pytest.raises(TypeError, match="at least one shard"):
        shardlift.device_put_sharded([], [])


def test_they_can_be_recorded_and_shown():
    recorder = Recorder(command=["train.py"])
    with recorder.observing():
        pmap = recorder.pmap(shardlift.pmap)
        for value in ODD.values():
            step = pmap(lambda x: x)
            for _ in range(3):
                shardlift.unreplicate(step(value))
    capture = files.loads(files.dumps(recorder.capture()))
    assert sum(site.calls for site in capture.sites) == 3 * len(ODD)
    assert not [text for text in capture.unseen if "fault" in text]
    view = view_of(capture, "run.json")
    assert all(render(view) for render in (page, machine.render))
