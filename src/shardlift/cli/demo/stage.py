"""Where the demo plays: commands, as the user would type them, run and shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from shardlift.cli.children import Done, plain_environment, run_python
from shardlift.cli.demo.folder import Folder

__all__ = ["DEVICES", "Stage", "folded"]

DEVICES = 8
_INDENT = 2
_MOST_ADDED = 14  # lines in a row that a diff adds, before they are folded
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


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
        return run_python(_arguments(typed), self._environment(), cwd=self.folder.path)

    def _environment(self) -> dict[str, str]:
        """Eight CPU devices, none of the user's own settings of JAX, and this terminal's width."""
        coloured = self.console.is_terminal and not self.console.no_color
        return plain_environment(DEVICES) | {
            "COLUMNS": str(max(40, self.console.width - _INDENT)),
            **({"FORCE_COLOR": "1"} if coloured else {"NO_COLOR": "1"}),
        }


def _arguments(typed: str) -> list[str]:
    """For this interpreter.

    >>> _arguments("shardlift check a.py"), _arguments("python a.py")
    (['-m', 'shardlift', 'check', 'a.py'], ['a.py'])
    """
    program, *rest = shlex.split(typed)
    return {"shardlift": ["-m", "shardlift"], "python": []}[program] + rest


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
