"""The stacks of a stuck job as text: which processes wait where."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator, Sequence

from shardlift.launch.stacks import StackFrame, ThreadStack
from shardlift.launch.stuck import StuckJob, StuckProcess

__all__ = ["explain_error", "explain_stuck"]

_MOST_FRAMES = 6  # of a stack
_MOST_NAMES = 16  # processes that are named
_WIDEST = 80  # letters of a line of the program
_IN_STEP = (
    "every process must make the same calls in the same order; print and save under "
    "`if jax.process_index() == 0:`, but compute outside of it"
)


def explain_stuck(stuck: StuckJob, *, ended: bool) -> str:
    """Where the processes of a stuck job wait, and what becomes of it."""
    pid = stuck.states[0].pid
    last = (
        "the job was ended, because of --end-when-stuck"
        if ended
        else "the job is left as it is: Ctrl-C ends it, and --end-when-stuck does it by itself. "
        f"To see C++ frames too: py-spy dump --native --pid {pid}"
    )
    who = f"none of the {stuck.processes} processes has used the CPU or printed anything"
    first = f"shardlift: for {stuck.seconds:.0f} s {who}"
    return "\n".join([first, *_explain_states(stuck.states), f"shardlift: {last}"])


def explain_error(error: Exception) -> str:
    """Why a program could not be compared; if it was stuck, with where each process waited."""
    stuck: StuckJob | None = getattr(error, "stuck", None)
    return "\n".join([str(error), *(_explain_states(stuck.states) if stuck else ())])


def _explain_states(states: Sequence[StuckProcess]) -> Iterator[str]:
    groups: dict[object, list[StuckProcess]] = {}
    for state in states:
        groups.setdefault(_place(state), []).append(state)
    for group in sorted(groups.values(), key=len, reverse=True):  # the odd ones come last
        yield from _explain_group(group)
    if len(groups) > 1:
        yield f"shardlift: {_IN_STEP}"


def _place(state: StuckProcess) -> object:
    """The line of the program in which a process waits."""
    return (state.ended, not state.stacks, state.stacks and state.main.own[:1])


def _explain_group(group: Sequence[StuckProcess]) -> Iterator[str]:
    first, one = group[0], len(group) == 1
    names = f"  {_name(group)}"
    if first.ended:
        yield f"{names} {'has' if one else 'have'} ended"
    elif not first.stacks:
        yield f"{names} {'does' if one else 'do'} not answer: stopped by a debugger or SIGSTOP?"
    elif not first.main.own:
        yield f"{names} {'has' if one else 'have'} come to the end of the program"
    else:
        wait = "waits" if one else "wait"
        yield from _explain_stack(f"{names} {wait}", first.main)
    for thread in first.threads:
        yield from _explain_stack("    another thread is", thread)


def _name(group: Sequence[StuckProcess]) -> str:
    if len(group) == 1:
        return f"process {group[0].process} (pid {group[0].pid})"
    more = f" and {len(group) - _MOST_NAMES} more" if len(group) > _MOST_NAMES else ""
    return f"processes {', '.join(str(state.process) for state in group[:_MOST_NAMES])}{more}"


def _explain_stack(who: str, stack: ThreadStack) -> Iterator[str]:
    """The frames of the program, innermost first, and the one of a library that they are in."""
    inside = stack.inside
    within = f" (inside {inside.function}, {_show_file(inside)})" if inside else ""
    innermost, *outer = stack.own
    yield f"{who} at {_show(innermost)}{within}"
    for frame in outer[:_MOST_FRAMES]:
        yield f"      called at {_show(frame)}"
    if len(outer) > _MOST_FRAMES:
        yield f"      ... and {len(outer) - _MOST_FRAMES} more"


def _show(frame: StackFrame) -> str:
    text = linecache.getline(frame.file, frame.line).strip()
    text = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
    return f"{_show_file(frame)} in {frame.function}" + (f": {text}" if text else "")


def _show_file(frame: StackFrame) -> str:
    """A line as people write it: from the current folder, or from where packages are."""
    path = frame.file.removeprefix(os.path.join(os.getcwd(), ""))
    installed = path.rpartition("-packages/")[2] if not frame.own else path
    return f"{installed}:{frame.line}"
