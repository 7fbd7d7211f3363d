"""Options travel to other processes, and each process of a job has its own."""

from __future__ import annotations

import dataclasses
import json

from shardlift.launch.session import RunOptions
from shardlift.recording.tape.options import TapeOptions


def test_options_survive_json() -> None:
    for tape in (None, TapeOptions(keep=1, oracle="vmap", jit=False)):
        options = RunOptions(patch=False, record="run.json", tape=tape, seed=3)
        assert RunOptions.from_tree(json.loads(json.dumps(dataclasses.asdict(options)))) == options


def test_the_first_process_prints() -> None:
    options = RunOptions()
    assert [options.of_process(k).quiet for k in (0, 1)] == [False, True]


def test_each_process_records_to_a_file_of_its_own() -> None:
    second = RunOptions(record="run.json").of_process(1)
    assert (second.record, second.quiet) == ("run.json.1", True)
