"""`shardlift migrate`: pmap rewritten to jax.jit(jax.shard_map(...)), as a diff or in place."""

from typing import Any

import click

from shardlift.cli.rewrite import rewrite
from shardlift.cli.rewrite_options import Request, RewriteCommand, rewrite_options
from shardlift.rewrite.goal import Goal


@click.command(
    "migrate",
    cls=RewriteCommand,
    epilog='Example: shardlift migrate src/ --write --verify "python train.py --steps 3"',
)
@click.option(
    "--to",
    type=click.Choice([goal.value for goal in Goal if goal is not Goal.FIX]),
    default=Goal.SHARD_MAP.value,
    show_default=True,
    help="shard_map: plain JAX, nothing of shardlift left. global: and no device axis where every "
    "array could be followed. jit: and data-parallel steps as jax.jit of the whole batch, without "
    "collectives. Both need a run: --verify or --facts. shim: shardlift.pmap, the least change.",
)
@click.option(
    "--facts",
    multiple=True,
    metavar="FILE",
    help="For --to global and jit: what `shardlift run --record FILE` saw, and proved of the "
    "outputs, instead of the run of --verify. May be given several times: what holds in all runs "
    "is used.",
)
@rewrite_options
def migrate_command(to: str, **asked: Any) -> None:
    """Leave pmap: rewrite it to jax.jit(jax.shard_map(...)), with the same shapes and numbers.

    Includes what `shardlift fix` does. Reads .py and .ipynb under each PATH (the current folder if
    none is given) and runs nothing of them, unless --verify says what to run. What
    cannot be rewritten is left as it is and listed with the reason.

    Exits 0 if there was nothing to do or all of it was written, 1 if there is a diff to look at
    or something was refused or backed out, 2 if a file could not be read or written, or COMMAND
    showed nothing.
    """
    rewrite(Request(Goal(to), **asked))
