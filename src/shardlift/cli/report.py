"""``shardlift report``: show a capture."""

from __future__ import annotations

import json
import sys

import click

from shardlift._files import replace_file
from shardlift.capture.schema import Capture
from shardlift.cli.captures import read_capture
from shardlift.cli.console import console
from shardlift.cli.stop import stop
from shardlift.report import comparison, machine, markdown, terminal
from shardlift.report.view import View, view_of


@click.command(
    short_help="Show what a recorded run did and cost.",
    epilog="Example: shardlift report run.json --html run.html",
)
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--html", type=click.Path(), metavar="OUT", help="Write an HTML page.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json", "markdown"]),
    show_default="text; with --html, the first sentence only",
    help="Output format.",
)
@click.option(
    "--compare",
    "other",
    type=click.Path(),
    metavar="OTHER",
    help="Compare FILE (before) with OTHER (after).",
)
@click.option("--quiet", "-q", is_flag=True, help="Print the first sentence only.")
def report(file: str, html: str | None, style: str | None, other: str | None, quiet: bool) -> None:
    """Show the capture FILE that `shardlift run --record FILE` wrote.

    Nothing from the file is executed. Exit status: 0, fine; 1, something needs a decision; 2, the
    file could not be read.
    """
    view = view_of(read_capture(file), file)
    after = None if other is None else read_capture(other)
    if html is not None:
        _write_page(view, after, html)
    if quiet or (html is not None and style is None and after is None):
        click.echo(view.headline)
    elif after is not None:
        click.echo(_comparison(view.capture, after, style))
    elif style in ("text", None):
        terminal.show(view, console(piped=100))
    else:
        click.echo(machine.render(view) if style == "json" else markdown.render(view), nl=False)
    if html is not None:
        click.echo(f"wrote {html}: open it in a browser", err=True)
    sys.exit(int(view.decisions > 0 and after is None))


def _comparison(before: Capture, after: Capture, style: str | None) -> str:
    if style == "json":
        return json.dumps(comparison.as_tree(before, after), indent=2, ensure_ascii=False)
    if style == "markdown":
        return comparison.as_markdown(before, after)
    return comparison.as_text(before, after)


def _write_page(view: View, after: Capture | None, out: str) -> None:
    from shardlift.report.html import page

    try:
        replace_file(out, page(view, after).encode("utf-8", "backslashreplace"))
    except OSError as error:
        stop(f"{out} cannot be written: {error.strerror}")
