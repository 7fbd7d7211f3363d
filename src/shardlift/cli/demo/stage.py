"""Run commands as the user would type them, and show their output."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from shardlift.cli.children import Done, plain_environment, run_python
from shardlift.cli.demo.folder import Folder

__all__ = ["DEVICES", "Stage", "fold_additions"]

DEVICES = 8
_INDENT = 2
_LONGEST_ADDITION = 14  # consecutive added lines of a diff that are shown in full
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Stage:
    """The folder and the terminal of a demo."""

    def __init__(self, folder: Folder, console: Console, quiet: bool, verbose: bool) -> None:
        """Run nothing yet."""
        self.folder, self.console, self.quiet, self.verbose = folder, console, quiet, verbose
        self._progress = Console(stderr=True)

    def say(self, text: str, style: str = "") -> None:
        """Print a sentence, unless quiet."""
        if not self.quiet:
            self.console.print(Text(text, style=style))

    def run(self, command: str, *, shown: bool = True) -> Done:
        """Run a command line in the folder: `shardlift ...` or `python ...`."""
        if not self.quiet:
            self.console.print(Text(f"$ {command}", style="bold green"), soft_wrap=True)
        with self._progress.status(command):
            done = self._run(command)
        if shown:
            self.show(done.output)
        return done

    def show(self, output: str) -> None:
        """Print the output of a command, indented."""
        for line in [] if self.quiet else Text.from_ansi(output.rstrip()).split(allow_blank=True):
            for part in self._wrap(line):
                part.rstrip()
                self.console.print(part, soft_wrap=True)

    def _wrap(self, line: Text) -> Iterator[Text]:
        """The line, indented and wrapped to the width of the terminal."""
        line.rstrip()
        if not line.plain:
            yield line
            return
        deep = len(line.plain) - len(line.plain.lstrip()) + 2
        room = self.console.width - _INDENT
        parts = [line] if len(line) <= room else line.wrap(self.console, room - deep)
        for k, part in enumerate(parts):
            yield Text(" " * (_INDENT + (deep if k else 0))) + part

    def _run(self, command: str) -> Done:
        return run_python(_arguments(command), self._environment(), cwd=self.folder.path)

    def _environment(self) -> dict[str, str]:
        """Virtual CPU devices, no settings of JAX by the user, and the width of this terminal."""
        coloured = self.console.is_terminal and not self.console.no_color
        return plain_environment(DEVICES) | {
            "COLUMNS": str(max(40, self.console.width - _INDENT)),
            **({"FORCE_COLOR": "1"} if coloured else {"NO_COLOR": "1"}),
        }


def _arguments(command: str) -> list[str]:
    """The arguments for this interpreter.

    >>> _arguments("shardlift check a.py"), _arguments("python a.py")
    (['-m', 'shardlift', 'check', 'a.py'], ['a.py'])
    """
    program, *rest = shlex.split(command)
    return {"shardlift": ["-m", "shardlift"], "python": []}[program] + rest


def fold_additions(diff: str) -> str:
    """The diff with long runs of added lines shortened.

    >>> print(fold_additions(" a\\n-b\\n" + "+c\\n" * 20 + "+d\\n e"))
     a
    -b
    +c
    +c
    +… 18 more lines
    +d
     e
    """
    out: list[str] = []
    added: list[str] = []
    for line in [*diff.splitlines(), ""]:
        if _COLOURS.sub("", line).startswith("+"):
            added.append(line)
            continue
        if len(added) > _LONGEST_ADDITION:
            added[2:-1] = [f"+… {len(added) - 3} more lines"]
        out += [*added, line]
        added = []
    return "\n".join(out[:-1])
