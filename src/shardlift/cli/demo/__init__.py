"""``shardlift demo``: every command, on a pmap program from 2022 that comes with the package."""

import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata, resources
from pathlib import Path

import click

from shardlift import __version__
from shardlift.cli.stop import need_jax, stop
from shardlift.launch.program import plain_environment

BEFORE, AFTER = "before/train.py", "after/train.py"
DEVICES = 8
# What each command shows, the command, and its exit status; `report` has 0 or 1, as it was.
STEPS = [
    ("A program from 2022 fails on today's JAX", f"python {BEFORE}", 1),
    (
        "It runs unmodified, and what every pmap did is recorded",
        f"shardlift run --devices {DEVICES} --record run.json {BEFORE}",
        0,
    ),
    ("What it did and cost", "shardlift report run.json", None),
    ("What has to change; nothing is executed", f"shardlift check {BEFORE} --format concise", 1),
    ("A copy is repaired; jax.pmap stays", f"shardlift fix {AFTER} --write --allow-dirty", 0),
    (
        "It runs without shardlift now, with today's random numbers. This may be all",
        f"python {AFTER}",
        0,
    ),
    ("If you want to leave pmap: the change", f"shardlift migrate {AFTER}", 1),
    ("It is made", f"shardlift migrate {AFTER} --write --allow-dirty", 0),
    ("The numbers are the same", f"shardlift verify {BEFORE} {AFTER} -- --steps 20", 0),
]
_NEXT = """
With your own code:

  shardlift run --devices 8 --record run.json train.py ARGS
  shardlift report run.json --html report.html
  shardlift check .
  shardlift fix .                     # keeps pmap; then again with --write
  shardlift migrate .                 # if you want to leave pmap
  shardlift verify train.py train_new.py -- ARGS

Or change {after}, for example remove a pmean,
and see what `shardlift verify {before} {after}` says.
"""


@click.command(
    short_help="Show every command on a bundled program from 2022.",
    epilog="Example: shardlift demo --into /tmp/demo",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    default="shardlift-demo",
    metavar="DIR",
    help="A new folder for the files of the demo.",
)
def demo(into: Path) -> None:
    """Show every command on this machine, on 8 virtual CPU devices.

    A training program from 2022 fails on today's JAX, runs unmodified, is recorded, checked,
    rewritten and proven to compute the same bits. Each command is printed as you would type it,
    and then run. Exit status: 0, all went well; 1, a command did not do what it should; 2, the
    demo could not start.
    """
    need_jax()
    _write_program(into)
    about = f"shardlift {__version__}, JAX {metadata.version('jax')}"
    click.echo(f"{about}, Python {platform.python_version()}, {DEVICES} virtual CPU devices")
    click.echo(f"All files are in {into}/.")
    env = plain_environment(DEVICES)
    for number, (title, command, status) in enumerate(STEPS, 1):
        heading = click.style(f"{number}/{len(STEPS)}  {title}", bold=True)
        click.echo(f"\n{heading}\n{click.style(f'$ {command}', fg='green', bold=True)}")
        _run(command, into, env, status)
    click.echo(_NEXT.format(before=into / BEFORE, after=into / AFTER), nl=False)


def bundled() -> dict[str, bytes]:
    """The program of the demo, with a pyproject.toml so that no outer configuration applies."""
    project = b'[project]\nname = "spiral"\nversion = "1"\ndependencies = ["jax", "numpy"]\n'
    script = resources.files("shardlift.cli.demo").joinpath("program", "train.py").read_bytes()
    return {BEFORE: script, "before/pyproject.toml": project}


def _write_program(into: Path) -> None:
    """Write the program and a copy of it to a folder that is new or empty."""
    try:
        into.mkdir(parents=True, exist_ok=True)
        if any(into.iterdir()):
            stop(f"{into} has files already: remove it, or choose another folder with --into")
        for name, content in (bundled() | {AFTER: bundled()[BEFORE]}).items():
            (into / name).parent.mkdir(exist_ok=True)
            (into / name).write_bytes(content)
    except OSError as error:
        stop(f"{into} cannot be used: {error.strerror or error}")


def _run(command: str, folder: Path, env: Mapping[str, str], wanted: int | None) -> None:
    """Run a command line as if it was typed in the folder: `shardlift ...` or `python ...`."""
    program, *arguments = shlex.split(command)
    module = ["-m", "shardlift"] if program == "shardlift" else []
    try:
        command_line = [sys.executable, *module, *arguments]
        status = subprocess.run(command_line, env=env, cwd=folder, check=False).returncode
    except KeyboardInterrupt:
        stop(f"interrupted; the files so far are in {folder}", status=130)
    if status != wanted and (wanted is not None or status > 1):
        click.echo(
            f"shardlift demo: exit status {status} instead of {wanted}; `shardlift doctor` looks "
            "for problems of this machine",
            err=True,
        )
        sys.exit(1)
