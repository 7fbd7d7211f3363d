"""The process in which one of two programs runs: ``python -m shardlift.verify.tape JSON``."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import asdict, dataclass
from typing import Any

from shardlift._legacy import Session
from shardlift.launch.program import Program, report_uncaught

KEEP = 64 * 2**20  # bytes of outputs, and of inputs, whose values are kept
TAPPED = 2  # calls of a site whose collectives are looked into
SEED = 0  # of what a program draws without a seed of its own, by random and numpy.random


@dataclass(frozen=True)
class Task:
    """What to run, and what to keep of it."""

    program: Program
    out: str
    patch: bool  # as `shardlift run`: pmap as it was, and the names that JAX removed
    keep: int
    keep_inputs: int
    tapped: int
    oracle: str = "shardlift.pmap"
    tutor: str | None = None  # the capture whose inputs are replayed
    processes: int = 1  # that each write a part of their own

    def part(self, process: int) -> str:
        """Where a process writes."""
        return self.out if self.processes == 1 else f"{self.out}.{process}"

    def to_json(self) -> str:
        """The argument of this module."""
        return json.dumps(asdict(self))


def main(argument: str) -> None:
    """Run the program, and write what was taped when it ends, however that is."""
    told = json.loads(argument)
    given = told.pop("program")
    task = Task(Program(**{**given, "args": tuple(given["args"])}), **told)
    taping = Taping(task)
    random.seed(SEED)
    try:
        task.program.run()
    except SystemExit:
        raise
    except BaseException as error:
        sys.exit(report_uncaught(error)[0])
    finally:
        taping.write()


class Taping:
    """The time in which a program runs on tape."""

    def __init__(self, task: Task) -> None:
        """Begins when JAX is imported."""
        self.task = task
        self.hooks: Any = None
        patch = task.patch and task.oracle != "jax.pmap"
        self.session = Session(patch=patch, prepare=self._prepare)
        self.session.enter()

    def _prepare(self) -> Any:
        # Not at the top: all of these import JAX, and the program decides when.
        import numpy as np

        from shardlift import _compat
        from shardlift._legacy.patches import Patches
        from shardlift.capture import files, values
        from shardlift.verify.tape.hooks import Hooks
        from shardlift.verify.tape.reference_run import Tutor
        from shardlift.verify.tape.site_tape import Tape

        _compat.leave_out_of_tracebacks(__file__.rpartition("verify")[0])
        np.random.seed(SEED)
        task, tutor = self.task, None
        if task.tutor is not None:
            tutor = Tutor(files.read(task.tutor), values.load(task.tutor))
        tape = Tape(task.keep, task.keep_inputs, task.tapped)
        self.hooks = Hooks(tape, task.oracle, tutor)
        self.hooks.install(Patches())
        return self.hooks

    def write(self) -> None:
        """Write the capture; none where JAX was not imported."""
        if self.hooks is not None:
            program = self.task.program
            command = [*(["-m"] if program.module else []), program.target, *program.args]
            tape = self.hooks.tape
            import jax

            process = jax.process_index() if self.task.processes > 1 else 0
            tape.write(self.task.part(process), tape.capture(command, self.task.patch))
