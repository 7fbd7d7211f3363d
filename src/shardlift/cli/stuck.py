"""What is said of a stuck job."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby

from shardlift.launch import Cause, Diagnosis, Frame, Mapped, ProcessState, Stack, Wait

__all__ = ["explain_error", "explain_stuck"]

_MOST_LINES = 8  # of a stack
_NAMED = 3  # processes that are described in one sentence
_MOST_NAMES, _MOST_PROCESSES = 16, 8  # processes that are named, and whose stacks are shown
_WIDEST = 60  # letters of an expression

_WAITS = {
    Wait.CALL: "is in a call that runs on the devices",
    Wait.VALUE: "waits for the value of an array",
    Wait.JAX: "waits inside JAX",
    Wait.AGREEMENT: "waits for the others to compile the same pmap",
    Wait.BARRIER: "waits for the others at a barrier",
    Wait.START: "waits for the others to import jax",
    Wait.END: "has come to the end of the program and waits for the others",
    Wait.SLEEP: "sleeps",
    Wait.INPUT: "waits for input",
    Wait.SUBPROCESS: "waits for a process that it started",
    Wait.QUEUE: "waits for a queue",
    Wait.FILE_LOCK: "waits for a lock on a file",
    Wait.LOCK: "waits for a lock",
    Wait.THREAD: "waits for a thread",
    Wait.EVENTS: "waits for events, in asyncio",
    Wait.NETWORK: "waits for the network",
    Wait.FILE: "waits for a file or a pipe",
    Wait.UNKNOWN: "waits",
    Wait.NO_ANSWER: "does not say what it waits for",
    Wait.GONE: "has ended",
    Wait.FAILED: "has failed",
}
_NOT_IN_STEP = (
    "one process skipped a call, or made one more: look for `if jax.process_index() == ...:`, for "
    "an early `continue`, `break` or `return`, and for an exception that was caught",
    "the processes make different numbers of steps: batches that do not divide evenly, or a loop "
    "that ends by a value that differs between them",
    "the processes run different programs: other arguments, files or environment variables",
)
_TOO_MANY_STEPS = (
    "many steps at once on few cores: call jax.block_until_ready on a result of every step, or "
    "use fewer --devices",
)
_IN_STEP = (
    "every process must make the same calls in the same order; print and save under "
    "`if jax.process_index() == 0:`, but compute outside of it"
)
_WAYS_OUT = {
    Wait.SLEEP: "a sleep ends by itself, unless it is in a loop; --stuck-after can be longer",
    Wait.INPUT: "the processes of a job have no terminal: pass what is asked for as an argument",
    Wait.SUBPROCESS: "look at what that process waits for",
    Wait.QUEUE: "nothing is put into the queue: did the thread or process that fills it fail?",
    Wait.FILE_LOCK: "if a process that waits for this one in JAX holds the lock, neither can go "
    "on: hold no lock during a collective",
    Wait.LOCK: "look at the threads above for the one that holds the lock",
    Wait.THREAD: "look at the threads above",
    Wait.NO_ANSWER: "is it stopped, by a debugger or SIGSTOP?",
}


def explain_stuck(diagnosis: Diagnosis, *, ended: bool) -> str:
    """Everything that is known of a job that `run` found stuck, for people."""
    count = len(diagnosis.states)
    # What a process prints, a launcher sees; a scheduler does not tell.
    printed = "" if any(state.host for state in diagnosis.states) else " or printed anything"
    first = (
        f"shardlift: for {diagnosis.seconds:.0f} s none of the {count} processes has used the CPU"
        f"{printed}"
    )
    last = f"shardlift: {_next(diagnosis, ended)}"
    return "\n".join([first, *_explain_states(diagnosis), last])


def explain_error(error: Exception) -> str:
    """Why a program could not be compared; if it was stuck, with what each process waited for."""
    diagnosis = getattr(error, "diagnosis", None)
    return "\n".join([str(error), *(_explain_states(diagnosis) if diagnosis else ())])


def _explain_states(diagnosis: Diagnosis) -> Iterator[str]:
    among = set(diagnosis.apart)
    apart = [state for state in diagnosis.states if state.process in among]
    rest = [state for state in diagnosis.states if state.process not in among]
    # Of those that are apart, and of those that are not.
    kept = sorted(apart[:_MOST_PROCESSES] + rest[:_MOST_PROCESSES], key=lambda s: s.process)
    for state in kept:
        yield from _describe(state)
    if more := len(diagnosis.states) - len(kept):
        yield f"  ... and {more} more processes"
    yield f"shardlift: {_summary(diagnosis)}"
    yield from _advice(diagnosis)


def _describe(state: ProcessState) -> Iterator[str]:
    where = f"pid {state.pid} on {state.host}" if state.host else f"pid {state.pid}"
    error = f": {state.error}" if state.error else ""
    yield f"  process {state.process} ({where}) {_WAITS[state.wait]}{error}{_result(state)}"
    if state.main and state.main.own:
        yield from _stack(state.main)
    for stack in state.threads:
        yield f"    its thread {stack.thread}"
        yield from _stack(stack)


def _result(state: ProcessState) -> str:
    if not state.mapped:
        return ""
    names = " or ".join(map(_describe_mapped, state.mapped))
    certain = state.wait in (Wait.CALL, Wait.AGREEMENT)
    return f": {names}" if certain else f", perhaps a result of {names}"


def _describe_mapped(mapped: Mapped) -> str:
    where = f", {relative_path(mapped.file)}:{mapped.line}" if mapped.file else ""
    return f"the {mapped.kind} `{mapped.name}` ({mapped.function}{where})"


def _stack(stack: Stack) -> Iterator[str]:
    """Innermost first; frames of libraries are folded."""
    lines = [
        f"      {line}"
        for library, frames in groupby(stack.frames, lambda frame: frame.library)
        for line in _fold(library, list(frames))
    ]
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"      ... and {len(lines) - _MOST_LINES} more"


def _fold(library: str, frames: Sequence[Frame]) -> Iterator[str]:
    if library:
        yield f"({library}: {len(frames)} {'frame' if len(frames) == 1 else 'frames'})"
        return
    for frame in frames:
        doing = frame.expression
        doing = doing if len(doing) <= _WIDEST else f"{doing[: _WIDEST - 3]}..."
        yield _place(frame) + (f": {doing}" if doing else "")


def _place(frame: Frame) -> str:
    return f"{relative_path(frame.file)}:{frame.line} in {frame.function}"


def relative_path(file: str) -> str:
    """A file as people write it: from the current folder if it is in it."""
    return file.removeprefix(os.path.join(os.getcwd(), ""))


def _summary(diagnosis: Diagnosis) -> str:
    states = diagnosis.states
    apart = [states[process] for process in diagnosis.apart]
    rest = [states[process] for process in diagnosis.rest]
    match diagnosis.cause:
        case Cause.SOME_FAILED:
            return f"{_names(apart)} failed, and {_names(rest)} can only wait{_at(rest)}"
        case Cause.SOME_DO_NOT_ANSWER:
            return f"{_names(apart)} gave no answer"
        case Cause.OUTSIDE_JAX:
            return "no deadlock in JAX: no process waits for another one"
        case Cause.SOME_ARE_BUSY_ELSEWHERE:
            each = ", ".join(f"{_names([s])} {_WAITS[s.wait]}{_at([s])}" for s in apart[:_NAMED])
            return f"no deadlock in JAX: {each}, and {_names(rest)} can only wait"
        case Cause.SOME_FINISHED:
            where = f"the end was reached by {_names(apart)}, but not by {_names(rest)}{_at(rest)}"
        case Cause.DIFFERENT_PLACES:
            where = f"{_names(apart)}{_at(apart)}, but {_names(rest)}{_at(rest)}"
        case Cause.SAME_PLACE:
            where = f"all processes wait{_at(rest)}"
    return f"a deadlock: {where}; a collective needs every process. Likely causes:"


def _names(states: Sequence[ProcessState]) -> str:
    noun = "process" if len(states) == 1 else "processes"
    more = f" and {len(states) - _MOST_NAMES} more" if len(states) > _MOST_NAMES else ""
    return f"{noun} {', '.join(str(state.process) for state in states[:_MOST_NAMES])}{more}"


def _at(states: Sequence[ProcessState]) -> str:
    """Where the first of these processes is, if that is known."""
    places = [state.place for state in states if state.place]
    return f" at {_place(places[0])}" if places else ""


def _advice(diagnosis: Diagnosis) -> list[str]:
    if diagnosis.cause in (Cause.DIFFERENT_PLACES, Cause.SOME_FINISHED, Cause.SAME_PLACE):
        more = _TOO_MANY_STEPS if diagnosis.cause is Cause.SAME_PLACE else ()
        return [*(f"  - {cause}" for cause in (*_NOT_IN_STEP, *more)), f"shardlift: {_IN_STEP}"]
    waits = dict.fromkeys(state.wait for state in diagnosis.states)
    return [f"  - {_WAYS_OUT[wait]}" for wait in waits if wait in _WAYS_OUT]


def _next(diagnosis: Diagnosis, ended: bool) -> str:
    if ended and diagnosis.cause is Cause.SOME_FAILED:
        return "the job was ended: it could not go on"
    if ended:
        return "the job was ended, because of --end-when-stuck"
    first = diagnosis.states[0]
    where = f" on {first.host}" if first.host else ""
    return (
        "the job is left as it is: Ctrl-C ends it, and --end-when-stuck does it by itself. To see "
        f"C++ frames too{where}: py-spy dump --native --pid {first.pid}"
    )
