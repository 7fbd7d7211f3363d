"""The outcome of a comparison as text, and as a tree for JSON."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from shardlift._escape import escape_control
from shardlift.capture.schema import Part
from shardlift.report.numbers import count
from shardlift.verify.compare.array_distance import ROUNDING
from shardlift.verify.compare.verdicts import (
    EQUAL,
    GapKind,
    LeafDifference,
    ProgramVerdict,
    Side,
    SiteVerdict,
    Verdict,
)

_COLOURS = {**dict.fromkeys(EQUAL, "green"), Verdict.DIFFERENT: "red"}  # of others, yellow
_ONE_ONLY = "collectives that only one program has"
_UNREADABLE = "outputs that could not be read"
# What is said of each gap: below the verdict, and in the last line; the latter may be nothing.
GAPS = {
    GapKind.ONLY_BEFORE: ("only before, not compared: {what}", _ONE_ONLY),
    GapKind.ONLY_AFTER: ("only after, not compared: {what}", _ONE_ONLY),
    GapKind.VALUES_NOT_KEPT: (
        "not compared, differs at least in rounding, and the values were not kept (--keep-bytes): "
        "{what}",
        "collectives whose values were not kept",
    ),
    GapKind.COLLECTIVES_NOT_RECORDED: (
        "collectives were not recorded {what}",
        "collectives that were not recorded",
    ),
    GapKind.OUTPUTS_NOT_READ: (
        "calls without outputs that could be read are not compared",
        _UNREADABLE,
    ),
    GapKind.NO_BYTES: ("{what} was not compared: its bytes were not recorded", _UNREADABLE),
    GapKind.TRANSFORMED: (
        "called inside grad, vmap or another transform, outside any jit or pmap: such calls are "
        "not recorded",
        "calls under grad, vmap or another transform",
    ),
    GapKind.PROCESS_MISSING: (
        "not recorded before, or after: process {what}",
        "processes that were not recorded on both sides",
    ),
    GapKind.ORDER: (
        "called in another order than before, relative to other functions: what the program does "
        "with the results may differ",
        "",
    ),
    GapKind.ONE_DEVICE: (
        "on one device collectives exchange nothing: compare on more (--devices 2)",
        "what devices exchange: there was one (--devices 2 runs both programs on virtual CPU "
        "devices)",
    ),
}
_OF_COLLECTIVES = {
    GapKind.ONLY_BEFORE,
    GapKind.ONLY_AFTER,
    GapKind.VALUES_NOT_KEPT,
    GapKind.COLLECTIVES_NOT_RECORDED,
}
MOST_LINES = 4  # findings of a site that are shown
KEEP = "\n\t"  # characters of a program's output that are not escaped


def headline(outcome: ProgramVerdict) -> str:
    """The number of sites with each verdict, and what was not looked at."""
    counts = [(outcome.count(word), word) for word in Verdict]
    parts = [f"{number} {word}" for number, word in counts if number]
    sites = count(len(outcome.sites), "site")
    text = f"{sites}: {', '.join(parts)}" if parts else "no site was found in either program"
    things = dict.fromkeys(_overlooked(outcome))
    return f"{text}. Not looked at: {'; '.join(things)}." if things else text


def _overlooked(outcome: ProgramVerdict) -> Iterator[str]:
    """What was not looked at."""
    sites = outcome.sites
    if missing := outcome.count(Verdict.NOT_REACHED):
        yield f"{count(missing, 'site')} not reached"
    for site in sites:
        yield from filter(None, (GAPS[gap.kind][1] for gap in site.gaps))
    if any(site.outputs_only and site.calls for site in sites):
        yield "collectives (--collectives 0)"
    limits = {s.collective_calls for s in sites if 0 < s.collective_calls < s.calls}
    if limits:
        first = "first call" if max(limits) == 1 else f"first {max(limits)} calls"
        yield f"collectives after the {first} of a function"
    if outcome.shared_file:
        yield f"another version of {outcome.shared_file}: both programs run the same one"
    if outcome.before.children or outcome.after.children:
        yield "calls in child processes"


def describe_comparison(site: SiteVerdict) -> str:
    """The number of arrays and calls that were compared."""
    if not site.calls:
        return "no call was compared"
    text = f"{count(site.leaves, 'output')} of {count(site.calls, 'call')}"
    if site.collectives:
        calls = site.collective_calls
        of_calls = f" in {count(calls, 'call')}" if calls != site.calls else ""
        text += f" and {count(site.collectives, 'result')} of collectives{of_calls}"
    text += " compared"
    bound = None if site.verdict == Verdict.DIFFERENT else rounding_of(site)
    return f"{text}; equal to rounding, {bound}, because XLA fuses differently" if bound else text


def rounding_of(site: SiteVerdict) -> str | None:
    """How far apart the arrays of a site are, if that is no more than rounding explains."""
    distances = [finding.distance for finding in site.findings if finding.distance is not None]
    in_ulps = [math.inf if d.rounding is None else d.rounding for d in distances]
    if not in_ulps or max(in_ulps) > ROUNDING.rounding:
        return None
    most = max(1, math.ceil(max(in_ulps)))
    return f"at most {count(most, 'ulp')} of the largest number of each array"


def places(site: SiteVerdict) -> str:
    """Both places of a site: ``train.py:31 (pmap) -> train_new.py:40 (shard_map)``."""
    sides = (site.before, site.after)
    return " -> ".join(f"{p.where} ({p.kind})" if p else "nothing" for p in sides)


def basis(site: SiteVerdict) -> str:
    """What a verdict is based on: what was compared, or why nothing was."""
    if site.verdict != Verdict.NOT_REACHED:
        return describe_comparison(site)
    calls = site.calls_of_each
    if not any(calls):
        return "never called in this run"
    which, other = ("before", "after") if calls[0] else ("after", "before")
    how_often = "once" if max(calls) == 1 else f"{max(calls)} times"
    return f"called {how_often} {which}, and not {other}"


def heading(site: SiteVerdict) -> str:
    """The verdict, with its restriction if only outputs were asked for."""
    only = site.outputs_only and site.verdict in EQUAL
    return f"{site.verdict} (outputs only)" if only else site.verdict


def gap_lines(site: SiteVerdict) -> list[str]:
    """What was not compared, and how often."""
    return [
        GAPS[gap.kind][0].format(what=gap.what) + f" ({gap.count} times)" * (gap.count > 1)
        for gap in site.gaps
    ]


def sentence(finding: LeafDifference) -> str:
    """A finding as one line."""
    if finding.part == Part.CALLS:
        return f"call {finding.call + 1}: {finding.what}"
    where = f" of {finding.about}" if finding.about else ""
    return f"{finding.path}{where}, call {finding.call + 1}: {finding.what}"


def finding_lines(site: SiteVerdict) -> list[str]:
    """The first findings: those that are not close, then by call."""
    ranked = sorted(site.findings, key=lambda f: (f.close, f.call, f.part != Part.INSIDE))
    lines = [sentence(finding) for finding in ranked[:MOST_LINES]]
    if len(ranked) > MOST_LINES:
        lines.append(f"and {len(ranked) - MOST_LINES} more (--format json lists all)")
    return lines


def advice(outcome: ProgramVerdict) -> list[str]:
    """Options to try next."""
    if any("EOFError" in side.error for side in (outcome.before, outcome.after)):
        return ["Programs have no standard input here: give what they ask for as arguments"]
    if outcome.after.status and not outcome.before.status:
        return ["AFTER failed under plain python; --patch-after restores what JAX removed"]
    if outcome.shared_file:
        return [
            f"Both programs run the same code of {outcome.shared_file}, which proves nothing. Copy "
            "the whole project before you change it, not only the program that is started"
        ]
    differing = [site for site in outcome.sites if site.verdict == Verdict.DIFFERENT]
    if not differing:
        partly = any(gap.kind in _OF_COLLECTIVES for site in outcome.sites for gap in site.gaps)
        return ["To compare outputs only, and no collectives: --collectives 0"] * partly
    distances = [finding.distance for site in differing for finding in site.findings]
    if outcome.tolerance or not all(d is not None and d.relative < 1e-5 for d in distances):
        return []
    if all(rounding_of(site) is not None for site in differing):
        bound = f"rounding={ROUNDING.rounding}"
        return [f"Rounding explains the differences. To accept them: --tolerance {bound}"]
    return ["The differences are small. To accept them: --tolerance ulps=N,rtol=X"]


# ---- text


def show(outcome: ProgramVerdict, console: Console, quiet: bool = False) -> None:
    """Print the outcome to a console."""
    if not quiet:
        for name, side in (("before", outcome.before), ("after", outcome.after)):
            _show_side(name, side, console)
        for site in outcome.sites:
            _show_site(site, console)
        for note in (*outcome.notes, *advice(outcome)):
            console.print(f"\n{escape(note)}", style="dim")
        console.print()
    console.print(f"[bold]{escape(headline(outcome))}[/]")


def _show_side(name: str, side: Side, console: Console) -> None:
    version = f"  [dim]JAX {escape(side.jax)}[/]" if side.jax else ""
    console.print(f"{name:6}  {escape(escape_control(side.command))}{version}")
    if side.children:
        children = f"{count(side.children, 'child process')} used JAX"
        _indented(f"[yellow]{children}; their calls were not recorded[/]", console, 8)
    if side.status:
        _indented(
            f"[red]ended with status {side.status}[/]; calls up to then are compared", console, 8
        )
        _indented(f"[dim]{escape(escape_control(side.error, keep=KEEP))}[/]", console, 8)


def _show_site(site: SiteVerdict, console: Console) -> None:
    colour = _COLOURS.get(site.verdict, "yellow")
    console.print(f"\n[bold {colour}]{heading(site)}[/]  [bold]{escape(site.name)}[/]", end="  ")
    console.print(f"[dim]{escape(places(site))}[/]")
    _indented(escape(basis(site)), console)
    for cause in site.causes:
        _indented(f"[bold]likely cause[/]  {escape(cause)}", console)
    for line in finding_lines(site):
        _indented(escape(line), console)
    for note in (*gap_lines(site), *site.notes):
        _indented(f"[dim]{escape(note)}[/]", console)


def _indented(text: str, console: Console, by: int = 4) -> None:
    console.print(Padding(text, (0, 0, 0, by), expand=False))


# ---- a tree for JSON


def machine(outcome: ProgramVerdict) -> dict[str, Any]:
    """The outcome as a tree for JSON, with all places and distances."""
    return {
        "verdicts": {word: outcome.count(word) for word in Verdict},
        **_finite(dataclasses.asdict(outcome)),
        "sites": site_trees(outcome),
    }


def site_trees(outcome: ProgramVerdict) -> list[Any]:
    """The verdicts on the sites, as trees for JSON."""
    return [_finite({**dataclasses.asdict(site), "name": site.name}) for site in outcome.sites]


def _finite(tree: Any) -> Any:
    """The tree with infinities and NaNs as text, because JSON has none."""
    if isinstance(tree, float) and (tree != tree or tree in (float("inf"), float("-inf"))):
        return str(tree)
    if isinstance(tree, dict):
        return {key: _finite(value) for key, value in tree.items()}
    return [_finite(value) for value in tree] if isinstance(tree, (list, tuple)) else tree
