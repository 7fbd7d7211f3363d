"""``shardlift record-legacy``: print a file that records a program in an old environment."""

from __future__ import annotations

from importlib import resources

import click


@click.command(
    "record-legacy",
    short_help="Print a file that records a program on an old JAX.",
    epilog="Example: shardlift record-legacy > record_legacy.py",
)
def record_legacy() -> None:
    """Print one Python file that records a program on JAX 0.4 to 0.7.

    The file needs nothing but JAX. Copy it to the old environment and run
    `python record_legacy.py capture.json train.py`: it runs the program and records the inputs
    and outputs of its pmapped functions. `shardlift verify capture.json train_new.py` then
    compares the new program with the recording.
    """
    file = resources.files("shardlift").joinpath("standalone", "record_legacy.py")
    click.echo(file.read_text(), nl=False)
