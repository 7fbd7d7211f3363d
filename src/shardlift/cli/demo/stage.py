"""Where the demo plays: commands, as the user would type them, run and shown."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from shardlift.cli.demo.folder import Folder
from shardlift.launch import virtual_devices

__all__ = ["DEVICES", "Done", "Stage", "folded"]

DEVICES = 8
_INDENT = 2
_MOST_ADDED = 14  # lines in a row that a diff adds, before they are folded
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Done(NamedTuple):
    """A command that has ended."""

    status: int
    output: str  # standard output and error, as they came
    seconds: float


class Stage:
    """A folder, a terminal, and how much is said."""

    def __init__(self, folder: Folder, console: Console, quiet: bool, verbose: bool) -> None:
        """Nothing is run yet."""
        self.folder, self.console, self.quiet, self.verbose = folder, console, quiet, verbose
        self._progress = Console(stderr=True)

    def say(self, text: str, style: str = "") -> None:
        """A sentence of the demo's own."""
        if not self.quiet:
            self.console.print(Text(text, style=style))

    def run(self, typed: str, *, shown: bool = True) -> Done:
        """Run a command line in the folder: `shardlift ...` or `python ...`."""
        if not self.quiet:
            self.console.print(Text(f"$ {typed}", style="bold green"), soft_wrap=True)
        with self._progress.status(typed):
            done = self._run(typed)
        if shown:
            self.show(done.output)
        return done

    def show(self, output: str) -> None:
        """What a command printed."""
        for line in [] if self.quiet else Text.from_ansi(output.rstrip()).split(allow_blank=True):
            for part in self._wrapped(line):
                part.rstrip()
                self.console.print(part, soft_wrap=True)

    def _wrapped(self, line: Text) -> Iterator[Text]:
        """The line moved in, and what does not fit in a line of this terminal below it."""
        line.rstrip()
        if not line.plain:
            yield line
            return
        deep = len(line.plain) - len(line.plain.lstrip()) + 2
        room = self.console.width - _INDENT
        parts = [line] if len(line) <= room else line.wrap(self.console, room - deep)
        for k, part in enumerate(parts):
            yield Text(" " * (_INDENT + (deep if k else 0))) + part

    def _run(self, typed: str) -> Done:
        start = time.perf_counter()
        with _ended_with_us(
            subprocess.Popen(
                [sys.executable, *_arguments(typed)],
                cwd=self.folder.path,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches it through us, with all that it started
                encoding="utf-8",
                errors="replace",
            )
        ) as process:
            output, _ = process.communicate()
        return Done(process.returncode, output, time.perf_counter() - start)

    def _environment(self) -> dict[str, str]:
        """Eight CPU devices, none of the user's own settings of JAX, and this terminal's width."""
        mine = os.environ.items()
        env = {k: v for k, v in mine if not k.startswith("JAX_") and k != "XLA_FLAGS"}
        virtual_devices(DEVICES, env)
        env.update(PYTHONIOENCODING="utf-8", PYTHONUNBUFFERED="1", NO_COLOR="1")
        env["COLUMNS"] = str(max(40, self.console.width - _INDENT))
        if self.console.is_terminal and not self.console.no_color:
            del env["NO_COLOR"]
            env["FORCE_COLOR"] = "1"
        return env


def _arguments(typed: str) -> list[str]:
    """For this interpreter.

    >>> _arguments("shardlift check a.py"), _arguments("python a.py")
    (['-m', 'shardlift', 'check', 'a.py'], ['a.py'])
    """
    program, *rest = shlex.split(typed)
    return {"shardlift": ["-m", "shardlift"], "python": []}[program] + rest


@contextlib.contextmanager
def _ended_with_us(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Whatever happens here, nothing of the process is left."""
    try:
        yield process
    except BaseException:
        for number, wait in ((signal.SIGINT, 3), (signal.SIGKILL, None)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=wait)
        raise


def folded(diff: str) -> str:
    """A diff in which long stretches of new lines are counted, not shown.

    >>> print(folded(" a\\n-b\\n" + "+c\\n" * 20 + "+d\\n e"))
     a
    -b
    +c
    +c
    +… 18 lines more
    +d
     e
    """
    out: list[str] = []
    added: list[str] = []
    for line in [*diff.splitlines(), ""]:
        if _COLOURS.sub("", line).startswith("+"):
            added.append(line)
            continue
        if len(added) > _MOST_ADDED:
            added[2:-1] = [f"+… {len(added) - 3} lines more"]
        out += [*added, line]
        added = []
    return "\n".join(out[:-1])
