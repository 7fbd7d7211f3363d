"""``shardlift record-legacy``: one file to take to an old environment."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

import click

from shardlift._files import replace_file


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
    help="Where to write it; record_legacy.py. - prints it.",
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def record_legacy(out: str, force: bool) -> None:
    """Write one Python file that needs nothing but the JAX (0.4 to 0.7) of an old environment.

    Copied there and run as `python record_legacy.py capture.json train.py`, it runs the program
    and writes what its pmapped functions took and gave. `shardlift verify capture.json
    train_new.py` compares the new program with that.
    """
    text = resources.files("shardlift.verify").joinpath("record_legacy.py").read_text("utf-8")
    if out == "-":
        click.echo(text, nl=False)
        return
    if Path(out).exists() and not force:
        click.echo(f"shardlift record-legacy: {out} is there already (--force, --out)", err=True)
        sys.exit(2)
    try:
        replace_file(out, text.encode())
    except OSError as error:
        click.echo(f"shardlift record-legacy: {out} cannot be written: {error.strerror}", err=True)
        sys.exit(2)
    click.echo(f"wrote {out}; next, in the old environment: python {out} capture.json PROGRAM ARGS")
