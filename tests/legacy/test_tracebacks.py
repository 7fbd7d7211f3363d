"""Tracebacks without the frames of this package."""

import traceback
from functools import partial
from typing import Any

import pytest

from shardlift._legacy.tracebacks import without_our_frames


def error_through(*modules: str) -> Exception:
    """An error that was raised through functions of these modules, the outermost first."""
    call: Any = partial(int, "no")
    for module in reversed(modules):
        space = {"__name__": module, "inner": call}
        exec("def outer(): inner()", space)
        call = space["outer"]
    with pytest.raises(ValueError, match="no") as raised:
        call()
    error: Exception = raised.value
    return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)


def test_an_error_and_those_that_led_to_it_show_the_program_only() -> None:
    frames = ("shardlift.launch", "click.core", "runpy", "train", "shardlift.mapping", "click")
    top, cause, context, last, member = (error_through(*frames) for _ in range(5))
    top.__cause__, top.__context__ = cause, context
    cause.__cause__ = ExceptionGroup("several", [member])
    context.__context__ = last
    last.__context__ = top
    without_our_frames(top)
    for error in (top, cause, context, last, member):
        shown = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        assert [frame.f_globals["__name__"] for frame in shown] == ["train", "click"]
