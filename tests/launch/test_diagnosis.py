"""From the stacks of all processes to a cause, and from that to a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from shardlift.cli.stuck import explain_stuck
from shardlift.launch import Cause, Diagnosis, Frame, Mapped, Stack, Wait
from shardlift.launch.diagnosis import diagnose
from shardlift.launch.stacks import Answer

STEP = Mapped("step", "pmap", "train_step", "/p/train.py", 12)


def lib(module: str, function: str, callee: str = "") -> Frame:
    package = module.partition(".")[0]
    return Frame(f"/lib/{package}.py", 1, function, module, package, "", callee)


def user(line: int, expression: str = "", callee: str = "", calls: Mapped | None = None) -> Frame:
    near = (STEP,)
    return Frame("/p/train.py", line, "main", "__main__", "", expression, callee, calls, near)


def answer(*frames: Frame, finished: bool = False, threads: Sequence[Stack] = ()) -> Answer:
    return Answer((*threads, Stack("MainThread", True, frames)), finished)


GUARD = (
    lib("shardlift.mapping.divergence", "agree"),
    lib("shardlift.mapping", "pmap.<locals>.pmapped"),
)
IN_CALL = answer(
    lib("shardlift.mapping.processes.across", "Across.__call__"), user(20, "step(x)", calls=STEP)
)
IN_JIT = answer(user(21, "step(x)", "jaxlib._jax.PjitFunction", calls=STEP))
IN_VALUE = answer(lib("jax._src.array", "ArrayImpl.__float__"), user(22, "float(loss)"))
READY = answer(user(23, "x.block_until_ready()", "jaxlib._jax.ArrayImpl.block_until_ready"))
STEPPED = answer(user(23, "step(x).block_until_ready()", "?.block_until_ready"))
IN_JAX = answer(lib("jax._src.lax", "gather"), user(24, "y[0]"))
IN_GUARD = answer(*GUARD, user(25, "step(x)", calls=STEP))
AT_BARRIER = answer(lib("jax.experimental.multihost_utils", "sync_global_devices"), user(26))
JOINING = answer(lib("jax._src.distributed", "State.initialize"), user(1, "import jax"))
FINISHED = answer(lib("jax._src.distributed", "shutdown"), finished=True)
JOINING_THREADS = answer(lib("threading", "_shutdown", "_thread.lock.acquire"), finished=True)
ASLEEP = answer(user(30, "time.sleep(99)", "time.sleep"))
INPUT = answer(user(31, 'input("go?")', "builtins.input"))
STDIN = answer(user(31, "sys.stdin.readline()", "sys.stdin"))
PIPE = answer(user(32, "pipe.read()", "_io.BufferedReader.read"))
LOCKED = answer(user(33, "fcntl.flock(f, 2)", "fcntl.flock"))
# A queue waits for a condition, and a subprocess is polled with sleeps.
QUEUE = answer(
    lib("threading", "Condition.wait", "_thread.lock.acquire"), lib("queue", "Queue.get"), user(34)
)
POLLING = answer(lib("subprocess", "Popen._wait", "time.sleep"), user(35))
LOOP = answer(lib("selectors", "select", "select.epoll.poll"), lib("asyncio.base", "run"), user(36))
SOCKET = answer(user(37, "s.recv(1)", "_socket.socket.recv"))


def diagnosis(*answers: Answer | None, gone: Sequence[int] = ()) -> Diagnosis:
    return diagnose(60.2, range(100, 100 + len(answers)), answers, gone)


@pytest.mark.parametrize(
    ("answer", "wait"),
    [
        (IN_CALL, Wait.CALL),
        (IN_JIT, Wait.CALL),
        (IN_VALUE, Wait.VALUE),
        (READY, Wait.VALUE),
        (STEPPED, Wait.VALUE),
        (IN_JAX, Wait.JAX),
        (IN_GUARD, Wait.AGREEMENT),
        (AT_BARRIER, Wait.BARRIER),
        (JOINING, Wait.START),
        (FINISHED, Wait.END),
        (JOINING_THREADS, Wait.THREAD),
        (ASLEEP, Wait.SLEEP),
        (INPUT, Wait.INPUT),
        (STDIN, Wait.INPUT),
        (PIPE, Wait.FILE),
        (LOCKED, Wait.FILE_LOCK),
        (QUEUE, Wait.QUEUE),
        (POLLING, Wait.SUBPROCESS),
        (LOOP, Wait.EVENTS),
        (SOCKET, Wait.NETWORK),
        (answer(user(40)), Wait.UNKNOWN),
        (None, Wait.NO_ANSWER),
        (Answer(()), Wait.NO_ANSWER),
    ],
)
def test_what_a_process_waits_for(answer: Answer | None, wait: Wait):
    assert diagnosis(answer).states[0].wait is wait


def test_a_module_of_the_user_is_not_taken_for_a_library():
    own = Frame("/p/queue.py", 3, "get", "queue", "", "time.sleep(1)", "time.sleep")
    assert diagnosis(answer(own, user(4))).states[0].wait is Wait.SLEEP


@pytest.mark.parametrize(
    ("answers", "cause", "apart"),
    [
        ((IN_VALUE, IN_VALUE), Cause.SAME_PLACE, ()),
        ((IN_VALUE, IN_GUARD), Cause.DIFFERENT_PLACES, (1,)),
        ((IN_CALL, IN_VALUE, IN_VALUE), Cause.DIFFERENT_PLACES, (0,)),
        ((IN_VALUE, IN_CALL, IN_JAX, IN_VALUE), Cause.DIFFERENT_PLACES, (1, 2)),
        ((IN_VALUE, FINISHED), Cause.SOME_FINISHED, (1,)),
        ((FINISHED, FINISHED, AT_BARRIER), Cause.SOME_FINISHED, (0, 1)),
        ((IN_VALUE, ASLEEP), Cause.SOME_ARE_BUSY_ELSEWHERE, (1,)),
        ((ASLEEP, FINISHED), Cause.SOME_ARE_BUSY_ELSEWHERE, (0,)),
        ((INPUT, INPUT), Cause.OUTSIDE_JAX, ()),
        ((ASLEEP, QUEUE), Cause.OUTSIDE_JAX, ()),
        ((IN_VALUE, None), Cause.SOME_DO_NOT_ANSWER, (1,)),
    ],
)
def test_causes(answers, cause: Cause, apart: tuple[int, ...]):
    found = diagnosis(*answers)
    assert (found.cause, found.apart) == (cause, apart)


def test_a_process_that_is_gone():
    assert diagnosis(IN_VALUE, None, gone=[1]).cause is Cause.SOME_FINISHED
    assert diagnosis(ASLEEP, None, gone=[1]).cause is Cause.OUTSIDE_JAX


def test_the_text_of_a_deadlock():
    text = explain_stuck(diagnosis(IN_VALUE, IN_GUARD), ended=False)
    lines = text.splitlines()
    assert lines[:7] == [
        "shardlift: for 60 s none of the 2 processes has used the CPU or printed anything",
        "  process 0 (pid 100) waits for the value of an array, perhaps a result of the pmap "
        "`step` (train_step, /p/train.py:12)",
        "      (jax: 1 frame)",
        "      /p/train.py:22 in main: float(loss)",
        "  process 1 (pid 101) waits for the others to compile the same pmap: the pmap `step` "
        "(train_step, /p/train.py:12)",
        "      (shardlift: 2 frames)",
        "      /p/train.py:25 in main: step(x)",
    ]
    assert lines[7] == (
        "shardlift: a deadlock: process 1 at /p/train.py:25 in main, but process 0 at "
        "/p/train.py:22 in main; a collective needs every process. Likely causes:"
    )
    assert "skipped a call" in lines[8]
    assert lines[-1].startswith("shardlift: the job is left as it is: Ctrl-C ends it")


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (ASLEEP, "sleeps"),
        (INPUT, "waits for input"),
        (POLLING, "waits for a process"),
        (QUEUE, "waits for a queue"),
        (LOCKED, "waits for a lock on a file"),
    ],
)
def test_who_waits_for_something_else_is_not_called_deadlocked(second: Answer, said: str):
    text = explain_stuck(diagnosis(IN_VALUE, second), ended=True)
    assert re.search(rf"process 1 \(pid 101\) {said}", text)
    assert re.search(
        rf"no deadlock in JAX: process 1 {said}.* at /p/train.py:3\d in main, and", text
    )
    assert "a deadlock:" not in text
    assert text.endswith("the job was ended, because of --end-when-stuck")


def test_several_processes_that_wait_for_something_else():
    text = explain_stuck(diagnosis(IN_VALUE, ASLEEP, INPUT, IN_CALL), ended=False)
    assert (
        "no deadlock in JAX: process 1 sleeps at /p/train.py:30 in main, process 2 waits for input "
        "at /p/train.py:31 in main, and processes 0, 3 can only wait" in text
    )


def test_every_wait_and_every_cause_has_words():
    for answers in ((IN_JAX, IN_JAX), (FINISHED, IN_JAX), (None, IN_JAX), (LOOP, SOCKET)):
        assert explain_stuck(diagnosis(*answers), ended=False)
    from shardlift.cli.stuck import _WAITS

    assert set(_WAITS) == set(Wait)


def test_a_long_stack_is_cut_and_other_threads_are_shown():
    deep = answer(*[user(k, "f(" + "x" * 80 + ")") for k in range(20)])
    loader = Stack("loader", False, (lib("threading", "wait"), user(50, "items.put(x)")))
    idle = Stack("idle", False, (lib("threading", "wait"),))
    text = explain_stuck(diagnosis(Answer((loader, idle, *deep.stacks))), ended=False)
    assert "... and 12 more" in text
    assert max(map(len, text.splitlines()[1:-4])) < 100
    assert "    its thread loader\n      (threading: 1 frame)\n      /p/train.py:50" in text
    assert "idle" not in text
