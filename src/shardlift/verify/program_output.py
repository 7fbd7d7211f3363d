"""What a program prints, and the files that it writes to a folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from shardlift.report.numbers import count

LARGEST_TEXT = 2**20  # bytes of a file that is compared line by line


@dataclass(frozen=True)
class Content:
    """The content of a file: its digest, and its text if it is a small text file."""

    digest: str
    text: str | None = None


@dataclass(frozen=True)
class ProgramOutput:
    """The text of each stream, and the content of each file by its path in the folder."""

    streams: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Content] = field(default_factory=dict)

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
        return ", ".join([*parts, count(len(self.files), "file")] if self.files else parts)


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


# ---- files


def read_folder(folder: str) -> dict[str, Content]:
    """The content of all files below a folder."""
    paths = (path for path in sorted(Path(folder).rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): _content(path) for path in paths}


def _content(path: Path) -> Content:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if path.stat().st_size > LARGEST_TEXT:
        return Content(digest)
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        return Content(digest)
    return Content(digest, None if "\0" in text else text)


def empty_folder(folder: str) -> None:
    """Remove everything below a folder, if it exists."""
    for path in Path(folder).iterdir() if os.path.isdir(folder) else ():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
