"""Options travel to other processes, and each process of a job has its own."""

from __future__ import annotations

import dataclasses
import json
import os
import threading

from shardlift.launch.session import RunOptions, RunSession
from shardlift.recording.tape.options import TapeOptions


def test_options_survive_json() -> None:
    for tape in (None, TapeOptions(keep=1, tapped=3)):
        options = RunOptions(patch=False, record="run.json", tape=tape, seed=3)
        assert RunOptions.from_tree(json.loads(json.dumps(dataclasses.asdict(options)))) == options


def test_the_first_process_prints() -> None:
    options = RunOptions()
    assert [options.of_process(k).quiet for k in (0, 1)] == [False, True]


def test_each_process_records_to_a_file_of_its_own() -> None:
    second = RunOptions(record="run.json").of_process(1)
    assert (second.record, second.quiet) == ("run.json.1", True)


def test_what_is_newer_is_written_last() -> None:
    """A thread writes the record of a job from time to time, also when the program ends."""
    began, go_on, written = threading.Event(), threading.Event(), list[str]()

    class Slow:
        def write(self, path: str) -> None:
            text = "older" if not began.is_set() else "newer"
            if text == "older":
                began.set()
                assert go_on.wait(60)
            written.append(text)

    session = object.__new__(RunSession)  # one that begins would change this process
    session.observer, session.path = Slow(), "run.json"  # type: ignore[assignment]
    session.process, session._writing = os.getpid(), threading.Lock()
    older = threading.Thread(target=session.write)
    older.start()
    assert began.wait(60)
    newer = threading.Thread(target=session.write)
    newer.start()
    newer.join(0.2)
    go_on.set()
    older.join(60)
    newer.join(60)
    assert written == ["older", "newer"]
