"""Options travel to other processes, and each process of a job has its own."""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import sys
import threading
from typing import Any
from unittest.mock import MagicMock

import jax
import numpy as np
import pytest

from shardlift import _compat
from shardlift.launch import session as launch_session
from shardlift.launch.member import Member
from shardlift.launch.program import Program
from shardlift.launch.session import RunOptions, RunSession
from shardlift.recording.tape.options import TapeOptions


def test_options_survive_json() -> None:
    for tape in (None, TapeOptions(keep=1, tapped=3)):
        options = RunOptions(patch=False, record="run.json", tape=tape, seed=3)
        assert RunOptions.from_tree(json.loads(json.dumps(dataclasses.asdict(options)))) == options


def test_the_first_process_prints_and_each_records_to_a_file_of_its_own() -> None:
    options = RunOptions()
    assert [options.of_process(k).quiet for k in (0, 1)] == [False, True]
    second = RunOptions(record="run.json", reference="old.json").of_process(1)
    assert (second.record, second.reference, second.quiet) == ("run.json.1", "old.json.1", True)


def session_of(observer: Any, process: int | None = None) -> RunSession:
    """A session without its beginning, which would change this process."""
    session = object.__new__(RunSession)
    session.observer, session.path, session.joined = observer, "run.json", False
    session.process = os.getpid() if process is None else process
    session._writing, session._ended = threading.Lock(), threading.Event()
    return session


def test_a_session_on_tape_where_jax_has_been_imported_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is printed while tracing is left out, and the program is no child of its own."""
    streams: list[Any] = []
    monkeypatch.setattr(launch_session, "leave_out_traced_prints", streams.append)
    monkeypatch.setattr(launch_session, "Children", MagicMock())
    at_once = MagicMock(side_effect=lambda prepare, **_: MagicMock(enter=prepare))
    monkeypatch.setattr(launch_session, "Session", at_once)
    monkeypatch.setattr(RunSession, "_recorder", lambda session: MagicMock(tape=session._tape()))
    session = RunSession(RunOptions(record="run.json", tape=TapeOptions()), Program("train.py"))
    assert session.observer is not None
    assert session.observer.tape is not None  # type: ignore[attr-defined]
    session._children.leave_out.assert_called_once()  # type: ignore[attr-defined]
    assert streams == [sys.stdout, sys.stderr]


def test_a_forked_process_says_nothing_of_devices() -> None:
    noted: list[int] = []

    class Observer:
        def note_devices(self) -> None:
            noted.append(1)

    session_of(Observer(), process=0).note_devices()
    assert noted == []
    session_of(Observer()).note_devices()
    assert noted == [1]


def test_numpy_is_seeded_again_once_jax_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compat, "leave_out_of_tracebacks", lambda _: None)
    session = session_of(None)
    session.options = RunOptions(seed=3)
    state = np.random.get_state()
    try:
        assert session._prepare() is None
        assert np.random.random() == np.random.RandomState(3).random_sample()
    finally:
        np.random.set_state(state)


def test_a_member_that_fails_says_so_and_where_its_part_is(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    session = session_of(None)
    monkeypatch.setattr(session, "end", lambda quiet: quiet)
    monkeypatch.setattr(session, "print", said.extend)
    member = object.__new__(Member)
    session.options = RunOptions()
    member.session, member.record, member.place = session, "run.json", (1, 2)
    assert member.end(1) is True
    assert said == ["process 1 of 2 failed; its part of the record is run.json"]
    assert [member.end(status) for status in (0, None)] == [True, True]
    assert len(said) == 1
    member.place = (0, 2)
    assert member.end(0) is True
    assert said[1:] == ["next: shardlift report run.json"]


def test_a_member_knows_its_place_once_the_program_has_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[Any] = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *args: called.append(args))
    monkeypatch.setattr(_compat, "place_in_job", lambda: (1, 2))
    session = session_of(None)
    session.options = RunOptions()
    member = Member(session)
    assert member.place is None
    jax.distributed.initialize("address")
    assert (member.place, called) == ((1, 2), [("address",)])


@pytest.mark.parametrize(("quiet", "options_quiet"), [(False, False), (True, False), (False, True)])
def test_the_end_is_told_unless_it_is_to_be_quiet(
    monkeypatch: pytest.MonkeyPatch, quiet: bool, options_quiet: bool
) -> None:
    said: list[str] = []
    session = session_of(None)
    session.options = RunOptions(quiet=options_quiet)
    monkeypatch.setattr(session, "lines", lambda: ["restored"])
    monkeypatch.setattr(session, "print", said.extend)
    assert session.end(quiet=quiet)
    assert session._ended.is_set()
    assert said == ([] if quiet or options_quiet else ["restored"])


def test_the_record_is_written_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the program has called something: before that, it may still join a job."""
    monkeypatch.setattr(launch_session, "_FIRST", 0.01)
    written: queue.Queue[str] = queue.Queue()

    class Observer:
        calls = False
        write = staticmethod(written.put)

        def has_calls(self) -> bool:
            return self.calls

    observer = Observer()
    session = session_of(observer)
    writer = threading.Thread(target=session._write_repeatedly)
    writer.start()
    writer.join(0.1)
    assert written.empty()
    observer.calls = True
    assert [written.get(timeout=60) for _ in range(2)] == ["run.json", "run.json"]
    session._ended.set()
    writer.join(60)
    assert not writer.is_alive()


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

    session = session_of(Slow())
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
