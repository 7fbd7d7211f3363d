"""The stacks of a stuck job as text: which processes wait where."""

import linecache
import os
from collections.abc import Iterator, Sequence

from shardlift.launch.stuck import StackFrame, StuckJob, StuckProcess

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
    for state in states:  # by the line of the program in which each waits
        groups.setdefault((state.ended, state.stack and state.stack[0]), []).append(state)
    for group in sorted(groups.values(), key=len, reverse=True):  # the odd ones come last
        names = ", ".join(f"process {state.process} (pid {state.pid})" for state in group)
        where, *callers = _explain_stack(group[0])
        yield f"  {names}: {where}"
        yield from (f"      {caller}" for caller in callers)
    if len(groups) > 1:
        yield f"shardlift: {_IN_STEP}"


def _explain_stack(state: StuckProcess) -> Iterator[str]:
    """The frames of the program, innermost first."""
    if state.ended:
        yield "ended"
    elif state.stack is None:
        yield "does not answer. Stopped by a debugger or SIGSTOP?"
    elif not state.stack:
        yield "at the end of the program"
    else:
        innermost, *outer = state.stack
        yield f"waits at {_show(innermost)}"
        yield from (f"called at {_show(frame)}" for frame in outer)


def _show(frame: StackFrame) -> str:
    text = linecache.getline(frame.file, frame.line).strip()
    path = frame.file.removeprefix(os.path.join(os.getcwd(), ""))
    return f"{path}:{frame.line} in {frame.function}" + (f": {text}" if text else "")
