"""What a program prints."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO

from shardlift.report.numbers import count


@dataclass(frozen=True)
class ProgramOutput:
    """The text of each stream."""

    streams: Mapping[str, str] = field(default_factory=dict)

    @property
    def end(self) -> str:
        """The last lines on standard error, or else on standard output."""
        error, out = self.streams.get("stderr", ""), self.streams.get("stdout", "")
        return "\n".join((error.rstrip() or out.rstrip()).splitlines()[-12:])

    @property
    def extent(self) -> str:
        """How much there is."""
        lines = {name: text.count("\n") for name, text in self.streams.items()}
        parts = [f"{count(number, 'line')} of {name}" for name, number in lines.items()]
        return ", ".join(parts)


def run_and_read(
    command: Sequence[str], env: Mapping[str, str], echo: bool
) -> tuple[int, ProgramOutput]:
    """Run a command; ``echo`` copies what it prints to standard error while it runs.

    It has no standard input: nobody would see what it asks for. Returns when the command ends,
    even if a process that it started lives on.
    """
    with ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        with subprocess.Popen(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=err
        ) as process:
            try:
                _wait(process, [out, err] if echo else [])
            except BaseException:
                process.kill()
                raise
        texts = [_read(file, 0).decode(errors="replace") for file in (out, err)]
    return process.returncode, ProgramOutput({"stdout": texts[0], "stderr": texts[1]})


def _wait(process: subprocess.Popen[bytes], echoed: Sequence[IO[bytes]]) -> None:
    if not echoed:
        process.wait()
        return
    shown = [0] * len(echoed)
    ended = False
    while not ended:
        try:
            process.wait(0.1)
            ended = True
        except subprocess.TimeoutExpired:
            pass
        for k, file in enumerate(echoed):
            new = _read(file, shown[k])
            shown[k] += len(new)
            print(new.decode(errors="replace"), end="", file=sys.stderr, flush=True)


def _read(file: IO[bytes], start: int) -> bytes:
    """The content from ``start``; the program's own position in the file stays."""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size - start, start)
