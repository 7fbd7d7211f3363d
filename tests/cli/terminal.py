"""A program on a terminal, and what is left on its screen."""

import os
import pty
import re
from pathlib import Path

from tests import children

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def on_a_terminal(command: list[str], cwd: Path) -> tuple[int, str]:
    """The exit status of a program and what it prints, control sequences included."""
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    with children.Child(command, cwd=cwd, env=env, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)  # so that reading ends when the program does
        printed = b""
        while part := _read(ours):
            printed += part
        status = child.finish().returncode
    os.close(ours)
    return status, printed.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def lines_left(printed: str) -> list[str]:
    """The lines that stay on the screen: a spinner deletes its own."""
    rows, at, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[\d;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", printed):
        if token == "\r":
            column = 0
        elif token == "\n":
            at, rows = at + 1, [*rows, ""] if at + 1 == len(rows) else rows
        elif token == "\x1b[1A":
            at -= 1
        elif token == "\x1b[2K":
            rows[at] = ""
        elif not token.startswith("\x1b"):
            rows[at] = rows[at][:column].ljust(column) + token
            column += len(token)
    return [row for row in rows if row.strip()]
