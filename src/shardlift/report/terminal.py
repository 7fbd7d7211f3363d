"""The report for a terminal: one sentence, one block per site, and what was not seen."""

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from shardlift.report.findings import ReportItem, timed
from shardlift.report.numbers import TIMES, percent, seconds, share
from shardlift.report.view import SiteView, View, about

# Distinguishable without colours too.
GLYPHS = {"waiting": "█", "dispatch": "░", "moving": "▓"}
COLOURS = {"waiting": "blue", "dispatch": "bright_black", "moving": "yellow"}
WIDTH = 24  # of a bar


def show(view: View, console: Console) -> None:
    """Print the report."""
    console.print(Text(view.headline, style="bold"))
    console.print(Text(" · ".join(about(view.capture)), style="dim"), soft_wrap=True)
    if view.sites:
        legend = Text("time of calls:  ", style="dim")
        for name, glyph in GLYPHS.items():
            legend.append(f"{glyph} ", style=COLOURS[name]).append(f"{name}  ", style="dim")
        console.print()
        console.print(legend)
    for site in view.sites:
        console.print()
        console.print(_site(site))
    console.print()
    if view.unseen:
        console.print(Text("Not seen", style="bold"))
        for text in view.unseen:
            console.print(_indent(Text(f"- {text}"), 2))
    if view.path:
        console.print(
            Text(f"Next: shardlift report {view.path} --html report.html"), soft_wrap=True
        )


def _site(view: SiteView) -> RenderableType:
    """One site: its name and numbers, its bar, its findings."""
    site, times = view.site, view.site.times
    head = Text.assemble((site.function, "bold cyan"), "  ", (view.place, "dim"))
    row = [Text(f"{view.calls} call{'' if view.calls == '1' else 's'}")]
    if times.call.count:
        row += [
            Text(f"p50 {seconds(times.call.quantile(0.5))}"),
            Text(f"p95 {seconds(times.call.quantile(0.95))}"),
            bar(view),
            Text(f"{percent(share(view.parts.moving, view.parts.total))} moving"),
        ]
    if site.compile_count:
        row.append(Text(f"compiled {site.compile_count}{TIMES}, {seconds(times.compiling.total)}"))
    return Group(head, _indent(Text("  ").join(row), 2), *map(_finding, view.findings))


def bar(view: SiteView) -> Text:
    """The parts of the time of a site, to scale."""
    text, done, upto = Text(), 0, 0.0
    for name, value in view.parts._asdict().items():
        upto += share(value, view.parts.total) * WIDTH
        cells = round(upto) - done
        text.append(GLYPHS[name] * cells, style=COLOURS[name])
        done += cells
    return text.append("·" * (WIDTH - done), style="dim")


def _finding(finding: ReportItem) -> RenderableType:
    mark = ("? ", "bold red") if finding.decision else ("→ ", "yellow")
    cost = timed(finding)
    lines = Text.assemble(mark, finding.what, (f"  [{cost}]" if cost else "", "dim"))
    fix = Text(finding.fix)
    command = Text(f"$ {finding.command}", style="green", no_wrap=True, overflow="ignore")
    more = [_indent(command, 4)] if finding.command else []
    return Group(_indent(lines, 2), _indent(fix, 4), *more)


def _indent(what: RenderableType, by: int) -> Padding:
    return Padding(what, (0, 0, 0, by), expand=False)
