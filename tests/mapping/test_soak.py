"""A short soak: counts after many calls are those after few. `bench/soak.py` has the long one."""

import pytest
from bench.soak import work

import shardlift
from shardlift.capture import files
from shardlift.facts import Recorder

CALLS, SHAPES = 1000, 2
# Arrays may wait for a collector or for a device, and a program or two may come late.
SLACK = {"kilobytes": 30_000, "objects": 3_000, "arrays": 20, "sites": 0, "threads": 1}


def grown(samples):
    """What the last sample holds beyond one in the middle, and should not."""
    middle, last = samples[len(samples) // 2], samples[-1]
    more = {key: last[key] - middle[key] for key in last}
    return {key: value for key, value in more.items() if value > SLACK.get(key, 2)}


@pytest.mark.slow
def test_nothing_grows():
    assert grown(list(work(CALLS, shardlift.pmap, 4, SHAPES))) == {}


@pytest.mark.slow
def test_nothing_grows_while_recording():
    watching = Recorder(command=["train.py"])
    with watching.observing():
        pmap = watching.pmap(shardlift.pmap)
        assert grown(list(work(CALLS, pmap, 4, SHAPES))) == {}
        early = len(files.dumps(watching.capture()))
        list(work(CALLS // 4, pmap, 1, SHAPES))
        capture = watching.capture()
    assert sum(site.calls for site in capture.sites) > CALLS
    assert len(files.dumps(capture)) < 1.5 * early + 20_000
