"""Which frames are the program's own."""

import functools
import os
import sys
from types import FrameType
from typing import Any

import jax
import pytest

import shardlift
from shardlift.recording import notebook_lines
from shardlift.recording.caller import codes_of, is_users
from shardlift.source.notebook import Cells

INSTALLED = os.path.join(os.path.dirname(os.path.dirname(pytest.__file__)), "somebody", "train.py")


def frame_of(filename: str, name: str) -> FrameType:
    """The frame of a function, or of a module, in a file."""
    body = "frame = sys._getframe()" if name == "<module>" else f"def {name}(): return here()"
    names: dict[str, Any] = {"sys": sys, "here": lambda: sys._getframe(1)}
    exec(compile(body, filename, "exec"), names)
    return names["frame"] if name == "<module>" else names[name]()


@pytest.mark.parametrize(
    ("filename", "name", "users"),
    [
        ("/home/me/train.py", "<module>", True),
        ("/home/me/train.py", "main", True),
        (INSTALLED, "make_step", True),
        (INSTALLED, "<module>", True),  # it may be a part of the program
        (shardlift.__file__, "<module>", False),
        (jax.__file__, "jitted", False),
        (shardlift.__file__, "pmap", False),
    ],
)
def test_is_users(filename: str, name: str, users: bool) -> None:
    assert is_users(frame_of(filename, name)) is users


def test_functions_are_told_apart_by_their_codes_and_by_those_that_they_hold() -> None:
    def held_by(fun: Any) -> Any:
        return lambda x: fun(x)

    def one(x: Any) -> Any:
        return x

    def other(x: Any) -> Any:
        return x + 1

    assert codes_of(functools.partial(one)) == codes_of(one) != codes_of(other)
    assert codes_of(held_by(one)) == codes_of(held_by(one)) != codes_of(held_by(other))


def test_the_cell_of_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_lines, "_notebooks", {})
    notebook_lines.note_notebook("a.ipynb", Cells((1, 3), (1, 9)))
    assert notebook_lines.cell_of("a.ipynb", 10) == (3, 2)
    assert notebook_lines.cell_of("a.py", 10) is None
