"""Child processes leave a mark if they use JAX."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import numpy as np

from shardlift.recording.tape.children import Children, WatchedTarget


def test_only_calls_in_other_processes_are_counted(tmp_path: Path) -> None:
    children = Children(str(tmp_path / "run.json"))
    children.note_call()
    assert children.count() == 0
    children.process += 1  # as if it had been forked
    children.note_call()
    children.note_call()
    assert children.count() == 1
    assert (children.count(), os.listdir(tmp_path)) == (0, [])


def test_a_target_is_watched_while_it_compiles(tmp_path: Path) -> None:
    children = Children(str(tmp_path / "run.json"))
    prefix = children._prefix
    assert WatchedTarget(lambda x: x + 1, prefix)(1) == 2
    assert children.count() == 0
    WatchedTarget(lambda x: jax.jit(lambda y: y * 17)(x), prefix)(np.ones(3))
    assert children.count() == 1
