"""`shardlift status`: how far a migration is."""

from __future__ import annotations

import sys
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import click

from shardlift.cli.config import ConfigError, find_config
from shardlift.cli.console import console
from shardlift.cli.files import Passed, find_files
from shardlift.cli.formats import status as formats
from shardlift.cli.progress import measure
from shardlift.cli.stop import stop
from shardlift.cli.verified import read_verified

_MACHINE = {"json": formats.machine, "svg": formats.svg, "shields": formats.shields}


@click.command(
    short_help="Show how far a migration is, by folder.",
    epilog="Example: shardlift status src/ --verified verify.json",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
@click.option(
    "--verified",
    multiple=True,
    metavar="FILE",
    show_default="`verified` in [tool.shardlift]",
    help="What `verify` or `migrate --verify` wrote with --format json; may be repeated.",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", *_MACHINE]),
    default="text",
    help="svg is a badge, shields the JSON of a shields.io endpoint badge.",
)
@click.option("--json", "style", flag_value="json", help="Short for --format json.")
def status(paths: tuple[str, ...], verified: tuple[str, ...], style: str) -> None:
    """Count the sites that still use pmap, that are migrated, and that are verified.

    A site is migrated if it maps a function with jax.shard_map, or with a helper that `shardlift
    migrate` wrote. It is verified if `verify` or `migrate --verify` found the same numbers, and its
    file has not changed since. Nothing is imported or run. Exits 2 if there was a file that could
    not be looked at, else 0.
    """
    paths = paths or (".",)
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        stop(f"no such file or folder: {', '.join(missing)}")
    passed = Passed()
    files = list(find_files(paths, passed))
    if not files and not passed.failed:
        stop(f"no .py or .ipynb file under {', '.join(paths)}")
    try:
        config = find_config(Path(paths[0]))
        progress = measure(files, config.settings(), read_verified(config, verified))
    except (ConfigError, ValueError) as error:
        stop(str(error))
    except BrokenProcessPool:
        stop("a worker process was killed, possibly out of memory")
    progress = replace(progress, unreadable=(*progress.unreadable, *passed.failed))
    if style == "text":
        formats.table(progress, console(piped=100))
    else:
        click.echo(_MACHINE[style](progress))
    sys.exit(2 if progress.unreadable else 0)
