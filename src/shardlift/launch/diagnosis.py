"""Why a job is stuck: what each process waits for, compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from shardlift.launch.stacks import Answer, Frame, Mapped, Stack
from shardlift.launch.waits import Wait, find_wait

__all__ = ["Cause", "Diagnosis", "ProcessState", "diagnose"]


class Cause(Enum):
    """Why a job may be stuck."""

    SOME_FAILED = auto()  # while others wait for them
    SOME_DO_NOT_ANSWER = auto()
    SOME_FINISHED = auto()  # while others wait for them in JAX
    SOME_ARE_BUSY_ELSEWHERE = auto()  # sleep or wait for input, while others wait for them
    DIFFERENT_PLACES = auto()  # all wait for each other, at different places
    SAME_PLACE = auto()  # all wait for each other, at one place
    OUTSIDE_JAX = auto()  # no process waits for another one


@dataclass(frozen=True)
class ProcessState:
    """What one process is doing."""

    process: int
    pid: int
    wait: Wait
    answer: Answer | None = None
    host: str = ""  # its machine, if there may be several
    error: str = ""  # with which its program ended

    @property
    def main(self) -> Stack | None:
        """The main thread."""
        return self.answer.main if self.answer else None

    @property
    def place(self) -> Frame | None:
        """The innermost frame of the program."""
        return self.main.own[0] if self.main and self.main.own else None

    @property
    def threads(self) -> tuple[Stack, ...]:
        """Other threads that are in the program."""
        stacks = self.answer.stacks if self.answer else ()
        return tuple(stack for stack in stacks if stack.own and not stack.main)

    @property
    def mapped(self) -> tuple[Mapped, ...]:
        """The pmapped or jitted function that it is in; or those whose results it may wait for."""
        own = self.main.own if self.main else ()
        if self.wait in (Wait.CALL, Wait.AGREEMENT):
            called = next((frame.calls for frame in own if frame.calls), None)
            return (called,) if called else ()
        if self.wait not in (Wait.VALUE, Wait.JAX):
            return ()
        return next((frame.near for frame in own if frame.near), ())


@dataclass(frozen=True)
class Diagnosis:
    """What is known of a stuck job."""

    seconds: float  # for which nothing has happened
    states: tuple[ProcessState, ...]
    cause: Cause
    apart: tuple[int, ...] = ()  # the processes that do something else than the rest

    @property
    def rest(self) -> tuple[int, ...]:
        """The other processes."""
        apart = set(self.apart)
        return tuple(s.process for s in self.states if s.process not in apart)


def diagnose(
    seconds: float, pids: Sequence[int], answers: Sequence[Answer | None], gone: Sequence[int]
) -> Diagnosis:
    """Compare the processes; those in ``gone`` have ended, without an error."""
    states = [
        ProcessState(k, pid, Wait.GONE if k in gone else find_wait(answer), answer)
        for k, (pid, answer) in enumerate(zip(pids, answers, strict=True))
    ]
    return compare_states(seconds, states)


def compare_states(seconds: float, states: Sequence[ProcessState]) -> Diagnosis:
    """Say why processes in these states are stuck."""
    cause, apart = _compare(states)
    return Diagnosis(seconds, tuple(states), cause, apart)


def _compare(states: Sequence[ProcessState]) -> tuple[Cause, tuple[int, ...]]:
    if failed := _which(states, Wait.FAILED):
        return Cause.SOME_FAILED, failed
    silent = _which(states, Wait.NO_ANSWER)
    finished = _which(states, Wait.END, Wait.GONE)
    busy = tuple(s.process for s in states if not s.wait.is_for_others and s.wait != Wait.GONE)
    if silent:
        return Cause.SOME_DO_NOT_ANSWER, silent
    if busy and not any(state.wait.is_for_others for state in states):
        return Cause.OUTSIDE_JAX, ()
    if busy:
        return Cause.SOME_ARE_BUSY_ELSEWHERE, busy
    if finished and len(finished) < len(states):
        return Cause.SOME_FINISHED, finished
    smaller = _smaller_groups(states)
    return (Cause.DIFFERENT_PLACES, smaller) if smaller else (Cause.SAME_PLACE, ())


def _which(states: Sequence[ProcessState], *waits: Wait) -> tuple[int, ...]:
    return tuple(state.process for state in states if state.wait in waits)


def _smaller_groups(states: Sequence[ProcessState]) -> tuple[int, ...]:
    """The processes that are not where most are; with a tie, where process 0 is not."""
    groups: dict[object, list[int]] = defaultdict(list)
    for state in states:
        place = state.place
        groups[(place.file, place.line) if place else None].append(state.process)
    largest = max(groups.values(), key=len)
    return tuple(state.process for state in states if state.process not in largest)
