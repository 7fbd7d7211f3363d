"""What a program prints."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
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
        """How much was printed to standard output."""
        printed = {k: text for k, text in self.streams.items() if k.startswith("stdout")}
        parts = [f"{count(text.count(chr(10)), 'line')} of {k}" for k, text in printed.items()]
        return ", ".join(parts)


def run_and_read(
    command: Sequence[str], env: Mapping[str, str], echo: bool
) -> tuple[int, ProgramOutput]:
    """Run a command; ``echo`` copies what it prints to standard error while it runs.

    It has no standard input: nobody would see what it asks for. Returns when the command ends,
    even if a process that it started lives on.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)]
        out, err = files
        process = stack.enter_context(
            subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        )
        stack.callback(process.kill)
        shown = [0, 0]
        ended = False
        while not ended:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
            ended = process.poll() is not None
            for k, file in enumerate(files if echo else ()):
                new = _read(file, shown[k])
                shown[k] += len(new)
                print(new.decode(errors="replace"), end="", file=sys.stderr, flush=True)
        texts = [_read(file, 0).decode(errors="replace") for file in files]
    return process.returncode, ProgramOutput({"stdout": texts[0], "stderr": texts[1]})


def _read(file: IO[bytes], start: int) -> bytes:
    """The content from ``start``; the program's own position in the file stays."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size - start, start)
