"""``shardlift record-legacy``: write a file that records a program in an old environment."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from shardlift._files import replace_file
from shardlift.cli.stop import stop


@click.command(
    "record-legacy",
    short_help="Write a file that records a program on an old JAX.",
    epilog="Example: shardlift record-legacy --out record_legacy.py",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    default="record_legacy.py",
    metavar="FILE",
    help="Where to write it; - prints it.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def record_legacy(out: str, force: bool) -> None:
    """Write one Python file that records a program on JAX 0.4 to 0.7.

    The file needs nothing but JAX. Copy it to the old environment and run
    `python record_legacy.py capture.json train.py`: it runs the program and records the inputs
    and outputs of its pmapped functions. `shardlift verify capture.json train_new.py` then
    compares the new program with the recording.
    """
    text = resources.files("shardlift").joinpath("standalone", "record_legacy.py").read_text()
    if out == "-":
        click.echo(text, nl=False)
        return
    if Path(out).exists() and not force:
        stop(f"{out} exists already: use --force to overwrite it, or --out FILE")
    try:
        replace_file(out, text.encode())
    except OSError as error:
        stop(f"{out} cannot be written: {error.strerror}")
    click.echo(f"wrote {out}; next, in the old environment: python {out} capture.json PROGRAM ARGS")
