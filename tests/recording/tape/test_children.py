"""Child processes leave a mark if they use JAX."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from shardlift.recording.tape.children import DUMPS, Children
from tests.children import run


def test_only_calls_in_other_processes_are_counted(tmp_path: Path) -> None:
    children = Children(str(tmp_path / "run.json"))
    children.note_call()
    assert children.count() == 0
    children.process += 1  # as if it had been forked
    children.note_call()
    children.note_call()
    assert children.count() == 1
    assert (children.count(), os.listdir(tmp_path)) == (0, [])


def test_a_forked_child_is_watched_while_it_compiles(tmp_path: Path) -> None:
    children = Children(str(tmp_path / "run.json"))
    children.process += 1
    children._watch_fork()
    assert children.count() == 0
    jax.jit(lambda y: y * 17)(np.ones(3))
    assert children.count() == 1


@pytest.mark.parametrize("used", [False, True])
def test_programs_are_named_if_one_of_them_uses_jax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    monkeypatch.setattr(os, "environ", {})
    children = Children(str(tmp_path / "run.json"))
    children._note_start("subprocess.Popen", ("x", ["python", "eval.py", "a b"], None, None))
    children._note_start("os.system", (b"make",))
    children._note_start("open", ("x", "r", 0))
    children.watch_programs()
    if used:  # as JAX leaves it
        folder = Path(os.environ[DUMPS])
        folder.mkdir()
        (folder / "jax_ir0000_jit_f_compile.mlir").touch()
        (folder / "jax_ir0001_jit_g_compile.mlir").touch()
    assert children.count() == used
    assert children.commands == (("python eval.py 'a b'", "make") if used else ())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("event", "args", "hidden"),
    [
        ("subprocess.Popen", ("x", ["/bin/python3", "a.py"], None, None), False),
        ("subprocess.Popen", ("x", ["/bin/python3", "a.py"], None, {"A": "1"}), True),
        ("subprocess.Popen", ("x", ["/bin/python3", "a.py"], None, {DUMPS.encode(): b"x"}), False),
        ("subprocess.Popen", ("x", ["git", "log"], None, {}), False),
        ("os.posix_spawn", ("x", ["python", "a.py"], {}), True),
        ("os.system", ("env -i python a.py",), False),
    ],
)
def test_programs_with_an_environment_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str, args: object, hidden: bool
) -> None:
    monkeypatch.setattr(os, "environ", {})
    children = Children(str(tmp_path / "run.json"))
    children.watch_programs()
    children._note_start(event, args)
    assert bool(children.hidden_commands) == hidden
    monkeypatch.setattr(os, "environ", {})  # before JAX is imported
    children._note_start("os.system", ("python b.py",))
    assert children.hidden_commands[-1] == "python b.py"


@pytest.mark.exhaustive
def test_jax_writes_what_it_compiles_to_the_folder(tmp_path: Path) -> None:
    text = "import jax; jax.jit(lambda x: x)(1.0)"
    environ = {**os.environ, DUMPS: str(tmp_path / "run.json.programs")}
    run([sys.executable, "-c", text], env=environ, timeout=120, check=True)
    assert Children(str(tmp_path / "run.json")).count() == 1
