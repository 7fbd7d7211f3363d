"""``shardlift demo``: see the engine at work on this machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from shardlift.demo import Outcome

DEVICES = 8


@click.command(
    short_help="A train step by shardlift.pmap and by jax.pmap, compared.",
    epilog="Example: shardlift demo",
)
@click.option("--steps", type=click.IntRange(1), default=30, help="Steps to train; 30.")
def demo(steps: int) -> None:
    """Train a small network on 8 virtual CPU devices, with shardlift.pmap and with jax.pmap.

    Every leaf of the two final states is compared bit by bit. Exit status 1 if one differs.
    """
    # JAX reads these when it starts, and the program is about devices, not about speed.
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["JAX_NUM_CPU_DEVICES"] = str(DEVICES)
    console = Console()
    try:
        from shardlift.demo import compare
    except ImportError as error:
        raise click.ClickException(f'{error}: pip install "shardlift[jax]"') from None
    with console.status("starting JAX") as status:
        outcome = compare(steps, status.update)
    show(console, outcome)
    sys.exit(0 if all(leaf.identical for leaf in outcome.leaves) else 1)


def show(console: Console, outcome: Outcome) -> None:
    """Print what was found."""
    console.print(outcome.explanation, markup=False, highlight=False)
    first, last = outcome.losses[0], outcome.losses[-1]
    console.print(f"\nloss {first:.4f} -> {last:.4f} in {len(outcome.losses)} steps\n")
    table = Table("leaf of the final state", "shape", "same bits as jax.pmap")
    for leaf in outcome.leaves:
        table.add_row(leaf.path, str(leaf.shape), "yes" if leaf.identical else "NO")
    console.print(table)
    same = sum(leaf.identical for leaf in outcome.leaves)
    console.print(f"{same} of {len(outcome.leaves)} leaves are bit-identical\n")
    ours, theirs = outcome.step_us["shardlift.pmap"], outcome.step_us["jax.pmap"]
    console.print(f"a step: {ours:.0f} µs, with jax.pmap {theirs:.0f} µs")
    for name, what in outcome.nested.items():
        console.print(f"a pmap inside a pmap, {name}: {what}", markup=False)
    console.print(
        "\nNext: shardlift.pmap in the place of jax.pmap in your program;\n"
        "`shardlift check .` to see what your code does that today's JAX does not;\n"
        "`shardlift run --help` to start a program in many processes.",
        markup=False,
    )
