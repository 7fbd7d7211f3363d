"""`shardlift fix`: what today's JAX removed, gets wrong or made slow is repaired; pmap stays."""

from typing import Any

import click

from shardlift.cli.rewrite import rewrite
from shardlift.cli.rewrite_options import Request, RewriteCommand, rewrite_options
from shardlift.rewrite.goal import Goal


@click.command(
    "fix",
    cls=RewriteCommand,
    epilog='Example: shardlift fix src/ --write --verify "python train.py --steps 3"',
)
@rewrite_options
def fix(**asked: Any) -> None:
    """Repair what is removed, wrong or slow on today's JAX. jax.pmap stays.

    Rewrites removed and renamed names and options, device_put_replicated and device_put_sharded,
    reads that gather an array from all devices, and pmaps inside one another, which JAX refuses.
    Reads .py and .ipynb under each PATH (the current folder if none is given) and runs nothing of
    them, unless --verify says what to run. What cannot be rewritten is left as it is and listed
    with the reason.

    Exits 0 if there was nothing to do or all of it was written, 1 if there is a diff to look at
    or something was refused or backed out, 2 if a file could not be read or written, or COMMAND
    showed nothing.
    """
    rewrite(Request(Goal.FIX, **asked))
