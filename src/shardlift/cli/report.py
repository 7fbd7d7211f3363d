"""``shardlift report``: show a capture."""

import sys

import click

from shardlift._files import replace_file
from shardlift.cli.console import console
from shardlift.cli.files import read_capture
from shardlift.cli.stop import stop
from shardlift.report import machine, terminal
from shardlift.report.view import view_of


@click.command(
    short_help="Show what a recorded run did and cost.",
    epilog="Example: shardlift report run.json --html run.html",
)
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--html", type=click.Path(), metavar="OUT", help="Write an HTML page.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json"]),
    show_default="text; with --html, the first sentence only",
    help="Output format.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print the first sentence only.")
def report(file: str, html: str | None, style: str | None, quiet: bool) -> None:
    """Show the capture FILE that `shardlift run --record FILE` wrote.

    Nothing from the file is executed. Exit status: 0, fine; 1, something needs a decision; 2, the
    file could not be read.
    """
    view = view_of(read_capture(file), file)
    if html is not None:
        from shardlift.report.html import page

        try:
            replace_file(html, page(view).encode("utf-8", "backslashreplace"))
        except OSError as error:
            stop(f"{html} cannot be written: {error.strerror}")
    if quiet or (html is not None and style is None):
        click.echo(view.headline)
    elif style == "json":
        click.echo(machine.render(view), nl=False)
    else:
        terminal.show(view, console(piped=100))
    if html is not None:
        click.echo(f"wrote {html}: open it in a browser", err=True)
    sys.exit(int(view.decisions > 0))
