"""Child processes leave a mark if they use JAX."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import jax
import numpy as np
import pytest

from shardlift.recording.tape.children import DUMPS, Children


def test_only_calls_in_other_processes_are_counted(tmp_path: Path) -> None:
    children = Children(str(tmp_path / "run.json"))
    children.note_call()
    assert children.count() == 0
    children.process += 1  # as if it had been forked
    children.note_call()
    children.note_call()
    assert children.count() == 1
    assert (children.count(), os.listdir(tmp_path)) == (0, [])


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is called in a forked child."""
    hooks: dict[str, Any] = {}
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(os, "register_at_fork", lambda **hook: hooks.update(hook))
    return hooks


def test_a_forked_child_is_watched_while_it_compiles(tmp_path: Path, hooks: dict[str, Any]) -> None:
    children = Children(str(tmp_path / "run.json"))
    children.watch()
    hooks["after_in_child"]()
    try:
        assert children.count() == 0
        jax.jit(lambda y: y * 17)(np.ones(3))
        assert children.count() == 1
    finally:
        jax.config.update("jax_dump_ir_to", "")


@pytest.mark.usefixtures("hooks")
def test_programs_that_use_jax_are_counted(tmp_path: Path) -> None:
    children = Children(str(tmp_path / "run.json"))
    children.watch()
    folder = Path(os.environ[DUMPS])
    folder.mkdir()  # as JAX does
    (folder / "jax_ir0000_jit_f_compile.mlir").touch()
    (folder / "jax_ir0001_jit_g_compile.mlir").touch()
    assert children.count() == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("own", [True, False])
def test_the_program_itself_is_no_child(monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    jax = MagicMock()
    children = Children("run.json")
    folder = children._folder if own else "of the user"
    monkeypatch.setattr(os, "environ", {DUMPS: folder})
    children.leave_out(jax)
    assert jax.config.update.called is own
