"""Pictures of the commands at work: ``python docs/_ext/terminal_pictures.py`` records them again.

Each command is run on the program of the demo, in a terminal of 96 columns, and what it prints is
written to docs/_static/terminal as an SVG. Times and sizes are those of the machine that ran it.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from shardlift.cli.demo import BEFORE, bundled

FOLDER = Path(__file__).parent.parent / "_static" / "terminal"
WIDTH, MOST_LINES = 96, 42
# Command -> what is typed; in this order, because one uses what another has written.
SESSIONS = {
    "run": "shardlift run --devices 8 --record run.json train.py --steps 30",
    "report": "shardlift report run.json",
    "check": "shardlift check train.py --format full --select SL1,SL2,SL3",
    "rule": "shardlift rule SL501",
    "fix": "shardlift fix train.py",
    "migrate": "shardlift migrate train.py",
    "verify": "shardlift verify train.py after.py -- --steps 3",
    "status": "shardlift status .",
    "demo": "shardlift demo --into demo",
    "doctor": "shardlift doctor",
    "lsp": "shardlift lsp --help",
}
# Without fonts from elsewhere: the site works without a network.
FORMAT = """\
<svg class="terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


def main() -> None:
    """Record all sessions, or those that are named."""
    wanted = sys.argv[1:] or list(SESSIONS)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("train.py", "after.py"):
            (folder / file).write_bytes(bundled()[BEFORE])
        _run("shardlift migrate after.py --write --allow-dirty", folder)
        _run(SESSIONS["run"], folder)  # the capture that the others show
        for command in wanted:
            session = SESSIONS[command]
            (FOLDER / f"{command}.svg").write_text(picture(session, _run(session, folder)))


def picture(command: str, output: str) -> str:
    """What a terminal shows, as an SVG."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False
    )
    console.print(Text.assemble(("$ ", "dim"), (command, "bold")))
    lines = output.rstrip().splitlines()
    for line in lines[:MOST_LINES]:
        console.print(Text.from_ansi(line))
    if len(lines) > MOST_LINES:
        console.print(Text(f"... {len(lines) - MOST_LINES} more lines", style="dim"))
    name = re.sub(r"\W+", "-", command.split()[1])
    return console.export_svg(title="", code_format=FORMAT, unique_id=f"terminal-{name}")


def _run(command: str, folder: Path) -> str:
    """What a command prints to a terminal, without its spinners."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(WIDTH), "LINES": "50", "TERM": "xterm-256color"}
    arguments = [sys.executable, "-m", *shlex.split(command)]
    process = subprocess.Popen(
        arguments, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    printed = _read(ours)
    process.wait(600)
    text = printed.replace("\r\n", "\n").replace(f"{folder}/", "")
    text = re.sub(r"\bLinux-\S+", "Linux-x86_64", text)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Zac-ln-z]", "", text)  # all but colours
    return re.sub(r"(\r|\x1b\[\d+m)*[\u2800-\u28ff][^\r\n]*(\r*\n)?", "", text).replace("\r", "")


def _read(handle: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(handle, 65536)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            os.close(handle)
            return b"".join(parts).decode()
        parts.append(part)


if __name__ == "__main__":
    main()
