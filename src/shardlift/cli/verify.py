"""``shardlift verify``: run two programs and compare them, call by call and leaf by leaf."""

import sys
from typing import Any

import click

from shardlift.capture.files import CaptureError
from shardlift.cli.console import console, phases
from shardlift.cli.rewrite_options import ToleranceOption
from shardlift.cli.stop import end_by_exception, need_jax, stop
from shardlift.cli.stuck import explain_error

_HELP = """Run two programs and compare what their mapped functions compute.

BEFORE uses pmap, and runs as under `shardlift run`, but draws random numbers as JAX does today.
AFTER is the migrated program, with
shard_map, jit with shardings or pmap, and runs as under plain python. Each is a script, a
notebook, a module ("-m pkg.train"), a test run ("pytest tests"), or a capture of an earlier run.
Both get the same ARGS, seeds and devices.

Sites are paired by name, calls by order, outputs by path; stacked (n, b, ...), global (n * b, ...)
and replicated arrays are converted to one layout. Everything is compared bit by bit: arrays are
identical, close (within --tolerance) or different. In the first calls the values that collectives
exchange are compared too, so that an optimiser cannot hide a wrong scale.

Exit status: 0, everything was compared and is the same; 1, a difference, a site in one program
only, or something that was not compared; 2, nothing could be compared.
"""


class _Command(click.Command):
    """Takes "-m pkg.train", in one word, for a program and not for an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        words = [f"python {word}" if word.startswith("-m ") else word for word in args[:end]]
        return super().parse_args(ctx, [*words, *args[end:]])


@click.command(
    cls=_Command,
    help=_HELP,
    short_help="Prove that a migrated program computes the same numbers.",
    epilog="Example: shardlift verify train.py train_new.py -- --steps 5",
)
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--tolerance",
    type=ToleranceOption(),
    default="ulps=0",
    metavar="rounding=N,ulps=N,rtol=X,atol=X",
    help="Tolerance for 'close'; ulps=0 is bit-identical. rtol is relative to the largest "
    "number of an array, and rounding counts in ulps of that number.",
)
@click.option(
    "--devices",
    type=click.IntRange(1),
    show_default="8, unless there is an accelerator or JAX_PLATFORMS names one",
    help="Virtual CPU devices per process.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Run each program in N local processes, each with --devices devices.",
)
@click.option(
    "--stuck-after",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="With --processes: after how long without CPU use and output to end a program, and to say "
    "where it waited; 0 waits for ever.",
)
@click.option(
    "--keep-bytes",
    "keep",
    type=click.IntRange(0),
    default=64 * 2**20,
    metavar="BYTES",
    show_default="64 MiB",
    help="How many bytes of outputs, and of inputs, to keep, to say how far apart they are. "
    "Everything beyond is kept as digests.",
)
@click.option(
    "--collectives",
    "tapped",
    type=click.IntRange(0),
    default=2,
    metavar="CALLS",
    help="How many calls per site to compare the collectives of; 0 compares outputs only.",
)
@click.option("--patch-after", is_flag=True, help="Run AFTER as under `shardlift run`, too.")
@click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", help="Output format."
)
@click.option("-q", "--quiet", is_flag=True, help="Print the last line only.")
@click.option("-v", "--verbose", is_flag=True, help="Show what the programs print.")
def verify(
    before: str,
    after: str,
    args: tuple[str, ...],
    tolerance: Any,
    style: str,
    quiet: bool,
    **given: Any,
) -> None:
    """Compare BEFORE and AFTER."""
    need_jax()
    from shardlift.verify import runs
    from shardlift.verify.compare.array_distance import Tolerance

    settings = runs.ComparisonOptions(Tolerance(**tolerance), **given)
    try:
        sources = [runs.parse_target(text, args) for text in (before, after)]
        with end_by_exception(), phases(quiet) as tell:
            outcome = runs.compare(sources[0], sources[1], settings, tell)
    except (runs.CannotRunError, CaptureError) as error:
        stop(explain_error(error))
    _print(outcome, style, quiet)
    sys.exit(outcome.status)


def _print(outcome: Any, style: str, quiet: bool) -> None:
    from shardlift.cli.formats import verdicts
    from shardlift.verify import verdict_text

    if style == "text" or quiet:
        verdict_text.show(outcome, console(piped=100), quiet)
    else:
        click.echo(verdicts.document_of(outcome))
