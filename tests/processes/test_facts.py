"""Recording in jobs of real processes: each writes its capture, and they are merged."""

from pathlib import Path

import pytest

from shardlift.facts import merge, read
from shardlift.report.numbers import parts_of

from .harness import run_processes

pytestmark = pytest.mark.slow


def training(folder):
    import jax
    import numpy as np
    from jax import lax

    import shardlift
    from shardlift.facts import Recorder

    me, mine = jax.process_index(), jax.local_device_count()
    traces = 0

    def train_step(state, batch, scale):
        nonlocal traces
        traces += 1
        new = state["w"] + lax.pmean(batch, "i").sum() * scale
        return {"w": new, "mine": state["mine"] + lax.axis_index("i")}, lax.psum(batch.sum(), "i")

    def run(pmap):
        step = pmap(
            lambda s, b, k: train_step(s, b, k),
            axis_name="i",
            donate_argnums=0,
            in_axes=(0, 0, None),
            out_axes=(0, None),
        )
        row = {"w": np.zeros(4, np.float32), "mine": np.int32(me)}
        # On the devices, so that the first call is given it, and has taken it when it is asked.
        state = shardlift.device_put_replicated(row, jax.local_devices())
        for k in range(20):
            batch = np.full((mine, 2), k + me, np.float32)
            state, loss = step(state, batch, np.float32(1))
        return jax.tree.map(np.asarray, (state, loss))

    plain = run(shardlift.pmap)
    before, traces = traces, 0
    recorder = Recorder()
    with recorder.observing():
        same = jax.tree.all(jax.tree.map(np.array_equal, plain, run(recorder.pmap(shardlift.pmap))))
        recorder.write(f"{folder}/{me}.json")
    return {"traces": [before, traces], "same": bool(same)}


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captures")
    results = run_processes(training, processes=2, devices=2, args=(str(folder),))
    assert [r.value["same"] for r in results] == [True, True]
    assert [len(set(r.value["traces"])) for r in results] == [1, 1]  # none more than without
    return [read(Path(folder) / f"{k}.json") for k in range(2)]


def test_each_process_says_which_it_is_and_sees_the_site_whole(captures):
    assert [(c.processes[0].index, c.processes[0].count) for c in captures] == [(0, 2), (1, 2)]
    assert [len(c.processes[0].devices) for c in captures] == [2, 2]
    (site,) = captures[1].sites
    assert site.axis_size == 4
    assert [leaf.path for leaf in site.arguments] == ["s['mine']", "s['w']", "b", "k"]
    unseen = [text for c in captures for text in (*c.unseen, *c.sites[0].unseen)]
    assert not [text for text in unseen if "traced" in text or "error of the recorder" in text]


def test_placing_inputs_is_timed(captures):
    (site,) = captures[0].sites
    assert {move.path for move in site.moves} == {"b", "k"}
    assert 2 <= site.times.probes.count <= 3
    assert 0 < parts_of(site).moving <= site.times.call.total


def test_merged(captures):
    both = merge(captures)
    (site,) = both.sites
    assert site.processes == (0, 1)
    assert site.calls == 40
    equal = {leaf.path: leaf.equal for leaf in site.arguments if leaf.axis is not None}
    # The batch is the same on both devices of a process, and another one in the other process.
    assert equal == {"s['w']": True, "s['mine']": False, "b": False}
    assert captures[0].sites[0].arguments[2].equal is True
