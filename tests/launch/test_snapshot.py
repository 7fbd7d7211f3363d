"""What a thread is doing, as seen from another one."""

from __future__ import annotations

import contextlib
import functools
import json
import queue
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import asdict

import jax
import pytest

import shardlift
from shardlift.launch import stacks
from shardlift.launch.snapshot import take_snapshot
from shardlift.launch.stacks import Answer, Frame, Stack, parse_dump
from shardlift.launch.waits import Wait, wait_of
from tests import children

SECONDS = 10


class Trainer:
    def __init__(self) -> None:
        self.step = shardlift.pmap(double)


def double(x):
    return 2 * x


def stack_in(
    body: Callable[[threading.Event], object], arrived: Callable[[Stack], object]
) -> Stack:
    """The stack of a thread that runs ``body``, as soon as it is where it waits."""
    release = threading.Event()
    thread = threading.Thread(target=body, args=(release,), name=body.__name__, daemon=True)
    thread.start()
    deadline, stack = time.monotonic() + SECONDS / 2, None
    try:
        while time.monotonic() < deadline:
            stacks_now = take_snapshot(finished=False).stacks
            stack = next((s for s in stacks_now if s.thread == body.__name__ and s.own), None)
            if stack and arrived(stack):
                return stack
            time.sleep(0.01)
    finally:
        release.set()
    raise AssertionError(f"it did not get there: {stack}")


def waits_here(stack: Stack) -> bool:
    return stack.own[0].expression == "release.wait(SECONDS)"


def sleeping(_):
    from time import sleep as nap

    nap(SECONDS)


def waiting_for_a_queue(_):
    items: queue.Queue[int] = queue.Queue()
    with contextlib.suppress(queue.Empty):
        items.get(timeout=SECONDS)


def waiting_for_a_simple_queue(_):
    items: queue.SimpleQueue[int] = queue.SimpleQueue()
    with contextlib.suppress(queue.Empty):
        items.get(timeout=SECONDS)


def waiting_for_a_process(_):
    children.run([sys.executable, "-c", f"import time; time.sleep({SECONDS})"])


def waiting_for_a_lock(_):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=SECONDS)


def waiting_for_an_event(release):
    release.wait(SECONDS)


def waiting_for_a_thread(_):
    other = threading.Thread(target=time.sleep, args=(SECONDS,))
    other.start()
    other.join()


@pytest.mark.parametrize(
    ("body", "wait"),
    [
        (sleeping, Wait.SLEEP),
        (waiting_for_a_queue, Wait.QUEUE),
        (waiting_for_a_simple_queue, Wait.QUEUE),
        (waiting_for_a_process, Wait.SUBPROCESS),
        (waiting_for_a_lock, Wait.LOCK),
        (waiting_for_an_event, Wait.LOCK),
        (waiting_for_a_thread, Wait.THREAD),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_it_waits_for(body, wait):
    assert stack_in(body, lambda stack: wait_of(stack) is wait)


def test_the_frame_knows_its_expression_and_what_that_calls():
    frame = stack_in(sleeping, lambda stack: "nap(" in stack.own[0].expression).own[0]
    assert (frame.expression, frame.callee) == ("nap(SECONDS)", "time.sleep")
    assert frame.file == __file__
    assert frame.function == "sleeping"


def test_pmaps_and_jits_that_the_code_uses_are_named():
    trainer, scaled = Trainer(), jax.jit(functools.partial(double))

    def program(release):
        steps = [trainer.step, scaled]
        mapped = trainer.step
        release.wait(SECONDS)
        return steps, mapped

    near = {mapped.name: mapped for mapped in stack_in(program, waits_here).own[0].near}
    line = double.__code__.co_firstlineno
    assert near["mapped"] == stacks.Mapped("mapped", "pmap", "double", __file__, line)
    assert near["scaled"] == stacks.Mapped("scaled", "jit", "double", __file__, line)


def test_no_code_of_the_program_is_run_to_find_out():
    asked: list[str] = []

    class Hostile:
        def __getattribute__(self, name):
            asked.append(name)
            return super().__getattribute__(name)

        def __eq__(self, other):
            asked.append("==")
            return self is other

        __hash__ = None  # type: ignore[assignment]

        def block(self, release):
            release.wait(SECONDS)

    thing = Hostile()

    def program(release):
        thing.block(release)

    frame = stack_in(program, waits_here).own[1]
    assert frame.expression == "thing.block(release)"
    assert frame.callee.endswith("Hostile.block")
    assert asked == ["block"]  # by the program itself


def test_it_travels_as_json():
    answer = Answer((stack_in(waiting_for_an_event, waits_here),), finished=True)
    assert Answer.from_json(json.loads(json.dumps(asdict(answer)))) == answer


@pytest.mark.parametrize("module", ["mine.train", "mine"])
def test_an_installed_program_is_the_users(module: str):
    file = "/venv/lib/python3.11/site-packages/mine/train.py"
    assert stacks.library_of(file, module) == "mine"
    assert stacks.library_of(file, module, own="mine") == ""


def test_what_faulthandler_writes_is_read(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import faulthandler, sys, threading
        def other():
            threading.Event().wait(9)
        def dump():
            faulthandler.dump_traceback(sys.stdout)
        threading.Thread(target=other, daemon=True).start()
        dump()
        """)
    )
    done = children.run([sys.executable, program])
    answer = parse_dump(done.stdout.splitlines())
    assert answer.main is not None
    assert [(f.file, f.line, f.function) for f in answer.main.own] == [
        (str(program), 6, "dump"),
        (str(program), 8, "<module>"),
    ]
    (other,) = (stack for stack in answer.stacks if not stack.main)
    assert wait_of(other) is Wait.LOCK
    assert other.own[0].line == 4


def test_nothing_that_is_no_dump_is_taken_for_one():
    assert parse_dump(["", "  <no Python frame>", "what"]).stacks == ()
    assert parse_dump([]).main is None


def test_the_frames_that_run_the_program_are_left_out():
    frames = [
        Frame("/p/train.py", 3, "train", "__main__"),
        Frame(stacks.__file__, 1, "run", "shardlift.launch.program", "shardlift"),
        Frame("<frozen runpy>", 88, "_run_code", "runpy", "runpy"),
    ]
    assert stacks.without_runner(frames) == (frames[0],)
    ending = Frame("/lib/threading.py", 1500, "_shutdown", "threading", "threading")
    begun = Frame("/lib/threading.py", 1000, "Thread._bootstrap", "threading", "threading")
    assert stacks.without_runner([ending, begun]) == (ending,)
