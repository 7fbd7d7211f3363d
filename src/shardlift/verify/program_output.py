"""What a program prints."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO


@dataclass(frozen=True)
class ProgramOutput:
    """The text of each stream."""

    streams: Mapping[str, str] = field(default_factory=dict)

    @property
    def end(self) -> str:
        """The last lines on standard error, or else on standard output."""
        error, out = self.streams.get("stderr", ""), self.streams.get("stdout", "")
        return "\n".join((error.rstrip() or out.rstrip()).splitlines()[-12:])


def run_and_read(
    command: Sequence[str], env: Mapping[str, str], echo: bool
) -> tuple[int, ProgramOutput]:
    """Run a command; ``echo`` shows what it has printed on standard error when it has ended.

    It has no standard input: nobody would see what it asks for. Returns when the command ends,
    even if a process that it started lives on.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False
        )
        texts = [_read(file) for file in (out, err)]
    if echo:
        print(*texts, sep="", end="", file=sys.stderr, flush=True)
    return done.returncode, ProgramOutput({"stdout": texts[0], "stderr": texts[1]})


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
