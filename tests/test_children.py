"""No test can hang: what is started ends in time, and one that is stuck says where."""

import ast
import sys
from pathlib import Path

import pytest

from tests import children
from tests.children import PIPE
from tests.processes.harness import assert_gone
from tests.watchdog import stacks

HERE = Path(__file__).parent
# Two threads that wait for each other, and a process of its own that waits too.
DEADLOCK = """
import os, subprocess, sys, threading

def hold(mine, other, name):
    with mine:
        met.wait()
        other.acquire()

def wait_in_a_grandchild():
    read, _ = os.pipe()
    os.read(read, 1)

if sys.argv[1:]:
    wait_in_a_grandchild()
grandchild = subprocess.Popen([sys.executable, __file__, "again"])
print("started", grandchild.pid, flush=True)
met, locks = threading.Barrier(2), (threading.Lock(), threading.Lock())
threads = [threading.Thread(target=hold, args=(*pair, "x")) for pair in (locks, locks[::-1])]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.fixture
def deadlock(tmp_path: Path) -> list[str]:
    path = tmp_path / "deadlock.py"
    path.write_text(DEADLOCK)
    return [sys.executable, str(path)]


@pytest.mark.slow
def test_a_deadlocked_program_is_reported_with_all_its_stacks(deadlock: list[str]) -> None:
    with pytest.raises(children.LateError) as failed:
        children.run(deadlock, timeout=3)
    said = str(failed.value)
    assert "not done in 3 s" in said
    assert said.count("in hold") == 2
    assert "in wait_in_a_grandchild" in said
    assert_gone([int(said.split("started ")[1].split()[0])])


LEAVES = """
import subprocess, sys
print(subprocess.Popen(["sleep", "60"], start_new_session=True).pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_family_in_other_sessions_is_killed() -> None:
    with children.Child([sys.executable, "-c", LEAVES], stdout=PIPE, stdin=PIPE) as child:
        pid = int(child.stdout.readline())
    assert_gone([child.pid, pid])


def test_the_stacks_of_this_process() -> None:
    assert "in test_the_stacks_of_this_process" in stacks()


STARTERS = {"run", "Popen", "call", "check_call", "check_output", "getoutput"}
OTHERS = {("os", "system"), ("os", "popen"), ("os", "spawnv"), ("pty", "spawn")}
# The helper itself, and a tool that no test runs.
MAY = {"children.py", "legacy/record.py"}


def starters(text: str) -> list[int]:
    """The lines on which a program is started past `children`."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    names = [(node.lineno, ast.unparse(node.func).split(".")) for node in calls]
    return [
        line
        for line, (*module, name) in names
        if (module == ["subprocess"] and name in STARTERS) or (*module, name) in OTHERS
    ]


def test_nothing_is_started_past_the_helper() -> None:
    assert starters("import subprocess\nsubprocess.run(['x'])\nos.system('x')") == [2, 3]
    paths = [path for path in HERE.rglob("*.py") if path.relative_to(HERE).as_posix() not in MAY]
    found = [f"{path}:{line}" for path in paths for line in starters(path.read_text())]
    imports = [p for p in paths if "\nfrom subprocess import" in p.read_text()]
    assert (found, imports) == ([], [])
