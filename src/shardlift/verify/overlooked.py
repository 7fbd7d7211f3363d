"""What a comparison did not look at: the end of the last line of `verify`."""

from __future__ import annotations

from collections.abc import Iterator

from shardlift._escape import escape_control
from shardlift.report.numbers import count
from shardlift.verify.compare.verdicts import GapKind, ProgramVerdict, SiteVerdict, Verdict

GAPS = {
    GapKind.ONLY_BEFORE: "collectives that only one program has",
    GapKind.ONLY_AFTER: "collectives that only one program has",
    GapKind.VALUES_NOT_KEPT: "collectives whose values were not kept",
    GapKind.COLLECTIVES_NOT_RECORDED: "collectives that were not recorded",
    GapKind.OUTPUTS_NOT_READ: "outputs that could not be read",
    GapKind.NO_BYTES: "outputs that could not be read",
    GapKind.TRANSFORMED: "calls under grad, vmap or another transform",
    GapKind.PROCESS_MISSING: "processes that were not recorded on both sides",
    GapKind.ONE_DEVICE: "what devices exchange: there was one (--devices 2 runs both programs on "
    "virtual CPU devices)",
}


def overlooked(outcome: ProgramVerdict) -> str:
    """One sentence; empty if everything was looked at."""
    things = dict.fromkeys(_things(outcome))
    return f"Not looked at: {'; '.join(things)}." if things else ""


def _things(outcome: ProgramVerdict) -> Iterator[str]:
    if missing := outcome.count(Verdict.NOT_REACHED):
        yield f"{count(missing, 'site')} not reached"
    for site in outcome.sites:
        yield from (GAPS[gap.kind] for gap in site.gaps if gap.kind in GAPS)
    yield from _unrecorded_collectives(outcome.sites)
    if outcome.before.children or outcome.after.children:
        yield "calls in child processes"
    sides = outcome.before, outcome.after
    if hidden := dict.fromkeys(command for side in sides for command in side.hidden_commands):
        first = ", ".join(f"`{escape_control(command[:60])}`" for command in [*hidden][:3])
        more = f" and {len(hidden) - 3} more" * (len(hidden) > 3)
        yield f"programs with an environment of their own: {first}{more}"


def _unrecorded_collectives(sites: tuple[SiteVerdict, ...]) -> Iterator[str]:
    """The calls beyond the limit of those whose collectives are recorded."""
    if any(site.outputs_only and site.calls for site in sites):
        yield "collectives (--collectives 0)"
    limits = {s.collective_calls for s in sites if 0 < s.collective_calls < s.calls}
    if limits:
        first = "first call" if max(limits) == 1 else f"first {max(limits)} calls"
        yield f"collectives after the {first} of a function"
