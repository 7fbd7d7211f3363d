"""``shardlift verify``: two programs, run and compared, call by call and leaf by leaf."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Console

from shardlift._escape import plain
from shardlift.capture.files import CaptureError
from shardlift.cli.console import console
from shardlift.cli.needs_jax import refuse_no_jax, refuse_old_jax
from shardlift.cli.verify_options import Tolerance

_HELP = """Run two programs and compare what their mapped functions compute.

BEFORE is written in pmap, and runs as `shardlift run` runs it. AFTER is what became of it, in
pmap, shard_map or jit with shardings, and runs as plain python runs it. Each is a script, a
notebook, a module ("-m pkg.train"), a test run ("pytest tests"), or a capture of an earlier run.
Both get the same ARGS, seeds and devices.

Sites are paired by name, calls in order, outputs by path; stacked (n, b, ...), global (n * b, ...)
and replicated arrays are brought to one layout. Everything is compared bit by bit; what is not
identical is close if --tolerance lets it, or else different. What collectives exchange is
compared too, in the first calls, so that an optimiser cannot hide a wrong scale.

Exit status: 0 all the same, 1 a difference or a site in one program only, 2 nothing to compare.
"""


@click.command(
    help=_HELP,
    short_help="Prove that a program computes what it did.",
    epilog="Example: shardlift verify train.py train_new.py -- --steps 5",
)
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--tolerance",
    type=Tolerance(),
    default="ulps=0",
    metavar="ulps=N,rtol=X,atol=X",
    help="What passes for close; nothing. rtol is of the largest number in an array.",
)
@click.option(
    "--devices",
    type=click.IntRange(1),
    help="Virtual CPU devices; 8, unless there is an accelerator or JAX_PLATFORMS is set.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Run each program in N local processes, as `shardlift run` does; --devices is of each.",
)
@click.option(
    "--oracle",
    type=click.Choice(["shardlift.pmap", "jax.pmap", "vmap"]),
    default="shardlift.pmap",
    help="What stands for pmap in BEFORE; shardlift.pmap.",
)
@click.option(
    "--keep-bytes",
    type=click.IntRange(0),
    default=64 * 2**20,
    metavar="BYTES",
    help="Outputs, and inputs, whose values are kept to say how far apart they are; 64 MiB. "
    "Of all others there are digests.",
)
@click.option(
    "--collectives",
    "tapped",
    type=click.IntRange(0),
    default=2,
    metavar="CALLS",
    help="Calls of a site whose collectives are looked into; 2.",
)
@click.option(
    "--replay/--no-replay",
    default=True,
    help="Where inputs differ, run AFTER on those of BEFORE too (8 calls a site); yes.",
)
@click.option("--patch-after", is_flag=True, help="Run AFTER as `shardlift run` does, too.")
@click.option("--check-determinism", is_flag=True, help="Run BEFORE twice first.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    help="How to print; text.",
)
@click.option("-q", "--quiet", is_flag=True, help="The last line only.")
@click.option("-v", "--verbose", is_flag=True, help="Show what the programs print.")
def verify(
    before: str,
    after: str,
    args: tuple[str, ...],
    tolerance: Any,
    devices: int | None,
    processes: int,
    oracle: str,
    keep_bytes: int,
    tapped: int,
    replay: bool,
    patch_after: bool,
    check_determinism: bool,
    style: str,
    quiet: bool,
    verbose: bool,
) -> None:
    """Compare BEFORE and AFTER."""
    refuse_old_jax("verify")
    try:
        from shardlift.verify import runs
        from shardlift.verify.compare.bits import Tolerance
    except ImportError as error:
        refuse_no_jax("verify", error)
    settings = runs.Settings(
        tolerance=Tolerance(**tolerance),
        devices=devices,
        processes=processes,
        keep=keep_bytes,
        tapped=tapped,
        replay=replay,
        oracle=oracle,
        patch_after=patch_after,
        verbose=verbose,
    )
    progress = Console(stderr=True)
    try:
        sources = [runs.parse_target(text, args) for text in (before, after)]
        with progress.status("starting") as status:
            notes: list[str] = []
            if check_determinism and not sources[0].capture:
                notes = runs.check_determinism(sources[0], settings, status.update)
            outcome = runs.compare(sources[0], sources[1], settings, status.update)
    except (runs.CannotRunError, CaptureError) as error:
        click.echo(plain(f"shardlift verify: {error}", keep="\n\t"), err=True)
        sys.exit(2)
    if check_determinism:
        outcome = runs.with_determinism(outcome, notes)
    _print(outcome, style, quiet)
    sys.exit(outcome.status)


def _print(outcome: Any, style: str, quiet: bool) -> None:
    from shardlift.verify import verdict_text

    if style == "text" or quiet:
        verdict_text.show(outcome, console(piped=100), quiet)
    else:
        render = verdict_text.machine if style == "json" else verdict_text.markdown
        click.echo(render(outcome), nl=False)
