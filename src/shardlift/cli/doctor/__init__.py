"""``shardlift doctor``: what is installed here, and whether pmap works."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence

import click
from rich.text import Text

from shardlift import __version__
from shardlift._escape import escape_control
from shardlift.cli.console import console, progress_console
from shardlift.cli.document import Item, document, item
from shardlift.cli.stop import installed_version, need_jax
from shardlift.launch.program import plain_environment
from shardlift.source.model import dotted
from shardlift.source.target import NEWEST

_PACKAGES = ("jax", "jaxlib", "numpy", "flax", "click", "rich")
_SETTINGS = ("JAX_", "XLA_")
_PROBE = os.path.join(os.path.dirname(__file__), "probe.py")
_COLOURS = {"ok": "green", "FAILED": "bold red"}
# No encoding of the terminal's, and no module of the current folder.
_SAFE = {"PYTHONIOENCODING": "utf-8", "PYTHONSAFEPATH": "1"}
_JOB = ("-m", "shardlift", "run", "--quiet", "--processes", "2", "--devices", "2")
_WAYS_OUT = {
    "your devices": "JAX_PLATFORMS=cpu uses the CPU",
    "8 virtual devices": "please report it, with all that is printed here",
    "2 processes": "processes communicate over 127.0.0.1: does a firewall or a proxy block it?",
}


@click.command(
    short_help="Print versions and devices, and test whether pmap works.",
    epilog="Example: shardlift doctor",
)
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text")
def doctor(style: str) -> None:
    """Print versions and settings, to paste into a bug report, and test whether pmap works here.

    The test takes gradients and sums on the devices that JAX
    finds, on 8 virtual devices, and in two processes that communicate. Writes no files. Exit
    status: 0, all fine; 1, a test failed; 2, JAX is not installed, or is too old.
    """
    installed = {name: installed_version(name) or "not installed" for name in _PACKAGES}
    python = f"Python {platform.python_version()}, {platform.platform()}"
    out = console(piped=100)
    out.quiet = style == "json"

    def line(word: str, text: str) -> None:
        styled = (f"{word:<7}" if word else "", _COLOURS.get(word, "yellow"))
        out.print(Text.assemble(styled, escape_control(text)), soft_wrap=True)

    tested = dotted(NEWEST)
    line("", f"shardlift {__version__}, {python}; tested with JAX up to {tested}")
    line("", ", ".join(f"{name} {number}" for name, number in installed.items()))
    for name, value in sorted(os.environ.items()):
        if name.startswith(_SETTINGS):
            line("", f"{name}={value}")
    need_jax()
    done: list[Item] = []
    failed: list[Item] = []
    for name, way_out in _WAYS_OUT.items():
        with progress_console().status(name):
            error, text = _test(*_program(name))
        line("FAILED" if error else "ok", f"{name}: {text}")
        if error:
            line("", f"       → {way_out}")
            failed.append(item("failed", text, test=name, advice=way_out))
        else:
            done.append(item("ok", text, test=name))
    status = int(bool(failed))
    if style == "json":
        following = [] if failed else ["shardlift run --devices 8 PROGRAM"]
        versions = {"shardlift": __version__, **installed}
        told = {"versions": versions, "python": python, "next_commands": following}
        click.echo(document("doctor", status, done=done, left=failed, **told))
    sys.exit(status)


def _program(test: str) -> tuple[Sequence[str], Mapping[str, str]]:
    """What a test runs, and in which environment."""
    if test == "your devices":
        return [_PROBE], {**os.environ, **_SAFE}
    if test == "8 virtual devices":
        return [_PROBE], plain_environment(8) | _SAFE
    return [*_JOB, _PROBE], plain_environment(None) | _SAFE


def _test(
    arguments: Sequence[str], env: Mapping[str, str], timeout: float = 120
) -> tuple[bool, str]:
    """Whether it failed, and its last line or its error."""
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return True, f"did not finish within {timeout:.0f} s"
    lines = done.stdout.strip().splitlines() or [f"exit status {done.returncode}"]
    errors = [text for text in lines if re.match(r"(\[\d\] )?[\w.]*(Error|Exception)\b", text)]
    text = (errors if done.returncode and errors else lines)[-1]
    return bool(done.returncode), re.sub(r"^\[\d\] ", "", text)
