"""Options travel to other processes, and each process of a job has its own."""

import io
import os
import queue
import random
import re
import sys
import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import jax
import numpy as np
import pytest
from jax.experimental import pjit

import shardlift
from shardlift import _compat
from shardlift._legacy import Uses
from shardlift.launch import session as launch_session
from shardlift.launch.member import Member
from shardlift.launch.program import Program
from shardlift.launch.session import (
    RunOptions,
    RunSession,
    from_json,
    leave_out_traced_prints,
    to_json,
)
from shardlift.recording.tape.options import TapeOptions


def test_options_survive_json() -> None:
    for tape in (None, TapeOptions(keep=1, tapped=3)):
        options = RunOptions(patch=False, record="run.json", tape=tape, seed=3)
        program = Program("train.py", ("--lr", "1"))
        assert from_json(to_json(program, options, link=3)) == (program, options, {"link": 3})


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


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX has been imported already, and nothing is restored in this process."""
    begun = MagicMock(side_effect=lambda prepare, **_: MagicMock(enter=prepare))
    monkeypatch.setattr(launch_session, "Session", begun)


@pytest.mark.usefixtures("at_once")
@pytest.mark.filterwarnings("ignore:jax.experimental.pjit")
@pytest.mark.parametrize("tape", [None, TapeOptions()])
def test_what_a_session_records(monkeypatch: pytest.MonkeyPatch, tape: TapeOptions | None) -> None:
    """On tape, not what is printed while tracing; and the program is no child of its own."""
    streams: list[Any] = []
    monkeypatch.setattr(launch_session, "leave_out_traced_prints", streams.append)
    monkeypatch.setattr(launch_session, "Children", children := MagicMock())
    places = [(shardlift, "pmap"), (jax, "shard_map"), (pjit, "pjit")]
    stock = [getattr(*place) for place in places]
    for place, function in zip(places, stock, strict=True):
        monkeypatch.setattr(*place, function)  # so that it is put back
    options = RunOptions(record="run.json", tape=tape, patch=False, facts=False)
    recorder = RunSession(options, Program("pkg", ("-n",), module=True)).observer
    assert recorder is not None
    told = (recorder._command, recorder._patched, recorder._facts, recorder.running)
    assert told == (("-m", "pkg", "-n"), False, False, True)
    on_tape = tape is not None
    assert (recorder._tape is not None) is on_tape
    assert streams == [sys.stdout, sys.stderr] * on_tape
    assert [name for name, *_ in children().mock_calls] == ["watch", "leave_out"] * on_tape
    pairs = zip(places, stock, strict=True)
    assert [getattr(*place) is not function for place, function in pairs] == [on_tape] * 3


def test_a_forked_process_writes_and_says_nothing() -> None:
    for process, calls in ((0, []), (None, ["note_devices", "write"])):
        session = session_of(observer := MagicMock(), process)
        session.options = RunOptions(quiet=True)
        session.note_devices()
        assert session.end()
        assert [name for name, *_ in observer.mock_calls] == calls


@pytest.mark.usefixtures("at_once")
def test_random_numbers_are_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of numpy again once jax is imported, which draws from them."""
    monkeypatch.setattr(np.random, "default_rng", stock := np.random.default_rng)

    def draw() -> list[float]:
        random.random()
        generators = [np.random.default_rng(given) for given in (None, None, 5)]
        return [random.random(), np.random.random(), *(one.random() for one in generators)]

    states = random.getstate(), np.random.get_state()
    try:
        session = RunSession(RunOptions(seed=3), Program("train.py"))
        drawn = draw()
        assert drawn[1] == np.random.RandomState(3).random_sample()
        assert drawn[-1] == stock(5).random()
        assert session._prepare() is None
        assert np.random.random() == drawn[1]
        RunSession(RunOptions(seed=3), Program("train.py"))
        assert draw() == drawn
        assert len({*drawn}) == 5
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


OLD_KEYS = "random numbers are those of JAX before 0.5"
FAILED = ModuleNotFoundError(name="jax.experimental.maps")


@pytest.mark.parametrize(
    ("uses", "error", "expected"),
    [
        ({}, None, ["no pmap, and nothing that JAX"]),
        ({}, FAILED, ["the program stopped: jax.experimental.maps was removed"]),
        (
            {"jax.tree_map": 1, "jax.pmap": 2},
            KeyError(),
            ["restored for .*: jax.tree_map .1.; jax.pmap .2. ran as", "next: .* my$"],
        ),
        ({"jax.make_mesh": 3}, None, ["as before JAX .*: jax.make_mesh .3.$", "next: "]),
        ({"jax.random.key": 1}, None, [OLD_KEYS, "next: "]),
        (
            {f"jax.{name}": number for number, name in enumerate("abcdefgh")},
            None,
            [".*: jax.h .7., .*jax.c .2. and 2 more$", "next: "],
        ),
    ],
)
def test_what_is_told_at_the_end(
    uses: dict[str, int], error: BaseException | None, expected: list[str]
) -> None:
    session = session_of(None)
    session.options, session.program = RunOptions(), Program("my/train.py")
    session.uses, session.error = Uses(uses), error
    assert all(map(re.match, expected, lines := session.lines()))
    assert len(lines) == len(expected)
    session.options = RunOptions(patch=False)
    assert len(session.lines()) == (error is FAILED)


def test_what_is_told_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(SimpleNamespace(summary=lambda: "recorded\nnext"))
    session.options, session.error = RunOptions(record="run.json"), None
    session.uses = Uses({"jax.random.key": 1})
    assert session.lines()[1:] == ["recorded", "next"]
    monkeypatch.delitem(sys.modules, "jax")
    assert session.lines() == ["nothing was recorded: the program did not import jax"]
    session.options = RunOptions()
    assert session.lines() == []


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


@pytest.mark.parametrize("place", [(1, 2), (0, 1), None])
@pytest.mark.parametrize("record", ["run.json", None])
def test_a_member_knows_its_place_once_the_program_has_joined(
    monkeypatch: pytest.MonkeyPatch, place: tuple[int, int] | None, record: str | None
) -> None:
    called: list[Any] = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *args: called.append(args))
    monkeypatch.setattr(_compat, "place_in_job", lambda: place)
    monkeypatch.setattr(RunSession, "keep_writing", lambda _: called.append("begun"))
    session = session_of(MagicMock())
    session.options = RunOptions(record=record, quiet=True)
    with monkeypatch.context() as slurm:
        slurm.setenv("SLURM_PROCID", "3")
        slurm.setenv("SLURM_STEP_NUM_TASKS", "4")
        member = Member(session)
    assert (member.place, session.path) == (None, "run.json.3" if record else "run.json")
    jax.distributed.initialize("address")
    assert called == ["begun"] * bool(record) + [("address",)]
    many = place == (1, 2)
    assert member.place == (place if many else None)
    assert session.joined is (many and record is not None)
    if session.joined:
        assert session.path == "run.json.1"
    assert member.end(0)
    assert session._ended.is_set()


@pytest.mark.parametrize(("quiet", "options_quiet"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("full", [False, True])
def test_the_end_is_told_unless_it_is_to_be_quiet(
    monkeypatch: pytest.MonkeyPatch, quiet: bool, options_quiet: bool, full: bool
) -> None:
    said: list[str] = []
    observer = MagicMock(running=True)
    observer.write.side_effect = OSError(28, "No space left") if full else None
    session = session_of(observer)
    session.options = RunOptions(quiet=options_quiet)
    monkeypatch.setattr(session, "lines", lambda: ["restored"])
    monkeypatch.setattr(session, "print", said.extend)
    assert session.end(quiet=quiet) is not full
    assert session._ended.is_set()
    assert observer.running is False
    if full:
        assert said == ["the record run.json could not be written: No space left"]
    else:
        assert said == ([] if quiet or options_quiet else ["restored"])
    said.clear()
    assert session.write(quiet=True) is not full
    assert said == []


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
    session.options = RunOptions()
    session.keep_writing()  # nowhere
    session.options = RunOptions(record="run.json")
    session.keep_writing()
    (writer,) = [one for one in threading.enumerate() if one.name == "shardlift-record"]
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


def test_what_is_printed_while_tracing_is_left_out() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    leave_out_traced_prints(stream)

    @jax.jit
    def f(x):
        print("traced", file=stream)
        return x

    print("before", file=stream)
    f(1.0)
    print("after", file=stream)
    stream.seek(0)
    assert stream.read() == "before\nafter\n"
