"""What should be changed at a site, with one function per kind of finding."""

from collections.abc import Iterator
from dataclasses import dataclass

from shardlift.capture.schema import (
    HOST,
    Capture,
    CompileReason,
    Move,
    MovedBy,
    ReadBy,
    ReasonKind,
    SiteFacts,
)
from shardlift.report.numbers import (
    amount,
    count,
    list_names,
    moved_share,
    parts_of,
    percent,
    seconds,
    share,
    wasted_bytes,
)

# Smaller findings are noise: share of the time of a site, bytes, programs, seconds.
WORTH_SHARE, WORTH_BYTES, WORTH_COMPILES, WORTH_SECONDS = 0.02, 2**20, 3, 1.0


@dataclass(frozen=True)
class ReportItem:
    """One thing about a site, what to do about it, and the command that tells more, if any."""

    kind: str
    what: str
    fix: str
    command: str
    decision: bool = False  # the user must decide: the numbers depend on it
    seconds: float = 0.0  # cost in the run
    nbytes: float = 0.0


def findings_of(site: SiteFacts, capture: Capture) -> list[ReportItem]:
    """The findings of one site: those that need a decision first, then by cost."""
    findings = [
        *_replicas_differ(site),
        *_transformed(site, capture),
        *_compiles(site),
        *_moves(site),
        *_donated(site),
        *_reads(site, capture),
        *_equal(site),
        *_nested(site),
    ]
    return sorted(findings, key=lambda f: (not f.decision, -f.seconds, -f.nbytes))


def _replicas_differ(site: SiteFacts) -> Iterator[ReportItem]:
    paths = [leaf.path for leaf in site.outputs if leaf.axis is None and leaf.equal is False]
    if paths:
        yield ReportItem(
            "replicas",
            f"out_axes=None, but the devices disagree: {list_names(paths)}",
            "The value of the first device is returned. Reduce it in the body (lax.pmean, "
            "lax.psum), or return the values of all devices with out_axes=0.",
            "shardlift rule SL703",
            decision=True,
        )


def _transformed(site: SiteFacts, capture: Capture) -> Iterator[ReportItem]:
    if site.transformed:
        many = len(capture.processes) > 1 or any(p.count > 1 for p in capture.processes)
        yield ReportItem(
            "transformed",
            f"called {count(site.transformed, 'time')} under a transformation",
            "There jax.pmap computes over one process only: call it outside the transformation."
            if many
            else "Its cost there was not measured. Call it outside the transformation, or put "
            "the transformation inside the function.",
            f"shardlift rule {'SL601' if many else 'SL205'}",
            decision=many,
        )


_REASONS = {
    ReasonKind.FIRST_CALL: "first call",
    ReasonKind.SAME_ARGUMENTS: "the arguments are the same as before, so pmap was given a new "
    "function, or caches were cleared",
    ReasonKind.STRUCTURE: "the structure of the arguments changed",
}
_ADVICE = {
    ReasonKind.SAME_ARGUMENTS: "Create the pmapped function once, outside the loop.",
    ReasonKind.STATIC_ARGUMENT: "Pass values that change as arrays, not as static arguments.",
    ReasonKind.WEAK_TYPE: "Give the argument a dtype, so that it is the same at every call.",
    ReasonKind.PLACEMENT: "Place it once with jax.device_put, as it will be on later calls.",
    ReasonKind.STRUCTURE: "Pass arguments of the same structure at every call.",
    ReasonKind.CONTEXT: "Set JAX's options once, before the first call.",
}
_ONE_SHAPE = "Use the same shape for every batch: shardlift.pad_shard_unpad pads and cuts."


def reason_text(reason: CompileReason) -> str:
    """Why a program was compiled.

    >>> reason_text(CompileReason(ReasonKind.TYPE, "x", "float32[8,4]", "float32[8,5]"))
    'x: float32[8,4] → float32[8,5]'
    """
    if reason.kind in _REASONS:
        return _REASONS[reason.kind]
    if reason.kind is ReasonKind.WEAK_TYPE:
        return f"{reason.path}: {reason.before}ly typed before"
    change = f"{reason.before} → {reason.after}"
    if reason.kind is ReasonKind.STATIC_ARGUMENT:
        return f"static argument {reason.path}: {change}"
    return f"{reason.path}: {change}" if reason.path else change


def _compiles(site: SiteFacts) -> Iterator[ReportItem]:
    lost = site.times.compiling.total * (1 - 1 / max(site.compile_count, 1))
    reasons = [reason for program in site.compiles[1:] for reason in program]
    if not reasons or (site.compile_count < WORTH_COMPILES and lost < WORTH_SECONDS):
        return
    again = next((r for r in reasons if r.kind is ReasonKind.SAME_ARGUMENTS), None)
    last = reasons[-1]
    yield ReportItem(
        "compiles",
        f"{count(site.compile_count, 'program')} compiled, the last because {reason_text(last)}",
        _ADVICE.get((again or last).kind, _ONE_SHAPE),
        "shardlift rule SL206",
        seconds=lost,
    )


def _moves(site: SiteFacts) -> Iterator[ReportItem]:
    parts = parts_of(site)
    host = [move for move in site.moves if move.source == HOST]
    other = [move for move in site.moves if move.source != HOST]
    by_program = parts.moving - site.times.moving.total
    if host and _worth(site, host, by_program):
        yield ReportItem(
            "host inputs",
            f"{_of_calls(site, host, 'copy', 'copies')} {_per_call(host)} from the host: "
            f"{_paths(host)}",
            "Place the next batch while this one runs, with shardlift.prefetch_to_device; place "
            "what does not change once, before the loop, with jax.device_put.",
            "",
            seconds=by_program,
        )
    if other and _worth(site, other, site.times.moving.total):
        first = max(other, key=lambda move: move.nbytes)
        unmapped = {leaf.path for leaf in site.arguments if leaf.axis is None}
        yield ReportItem(
            "moved inputs",
            f"{_of_calls(site, other, 'move', 'moves')} {_per_call(other)} between devices: "
            f"{_paths(other)}, {first.source} → {first.target}",
            "It is one value for all devices (in_axes=None), copied to every device at each call. "
            "Place it once, with jax.device_put(x, NamedSharding(mesh, P()))."
            if first.path in unmapped
            else "Place it once, with jax.device_put, or pass its devices to pmap.",
            "shardlift rule SL303",
            seconds=site.times.moving.total,
        )


def _worth(site: SiteFacts, moves: list[Move], cost: float) -> bool:
    large = sum(move.nbytes / move.count for move in moves if move.count) >= WORTH_BYTES
    return large or share(cost, parts_of(site).total) >= WORTH_SHARE


def _of_calls(site: SiteFacts, moves: list[Move], many: str, each: str) -> str:
    """How many calls do something, with the verb."""
    exact = max((m.count for m in moves if m.by is MovedBy.PMAP), default=0)
    part = share(exact, site.calls) if exact else moved_share(site)
    return f"every call {each}" if part >= 1 else f"{percent(part)} of the calls {many}"


def _per_call(moves: list[Move]) -> str:
    return amount(sum(move.nbytes / move.count for move in moves if move.count))


def _paths(moves: list[Move]) -> str:
    largest = sorted(moves, key=lambda move: -move.nbytes)
    return list_names(dict.fromkeys(move.path for move in largest))


def _donated(site: SiteFacts) -> Iterator[ReportItem]:
    kept = [leaf for leaf in site.arguments if leaf.donated and leaf.kept]
    if kept:
        yield ReportItem(
            "donated",
            f"donated, but not reused: {list_names(leaf.path for leaf in kept)}",
            "A donated buffer is reused by an output of the same shape, dtype and placement; an "
            "argument that is elsewhere is copied first. Place it once, or do not donate it. With "
            "jax_debug_nans, nothing is donated.",
            "shardlift rule SL305",
            nbytes=sum(leaf.nbytes for leaf in kept),
        )


_READS = {
    ReadBy.INDEX: (
        "SL401",
        "x[i]",
        "Read x.addressable_shards[i].data, or return it without an axis.",
    ),
    ReadBy.UNREPLICATE: (
        "SL402",
        "unreplicate",
        "Return it with out_axes=None, without a device axis.",
    ),
    ReadBy.DEVICE_GET: ("SL404", "device_get", "Take the first replica, then fetch only that."),
}


def _reads(site: SiteFacts, capture: Capture) -> Iterator[ReportItem]:
    for how, (code, name, fix) in _READS.items():
        reads = [read for read in site.reads if read.how is how]
        if reads:
            lines = list_names(dict.fromkeys(capture.place(r.file, r.line) for r in reads))
            times = sum(read.count for read in reads)
            total = sum(read.nbytes for read in reads)
            yield ReportItem(
                f"read by {how}",
                f"outputs read by {name} {count(times, 'time')}, {amount(total)} in all ({lines})",
                fix,
                f"shardlift rule {code}",
                seconds=sum(read.seconds for read in reads),
                nbytes=total,
            )


def _equal(site: SiteFacts) -> Iterator[ReportItem]:
    wasted = wasted_bytes(site)
    if wasted >= WORTH_BYTES:
        leaves = [leaf for leaf in site.arguments if leaf.axis is not None and leaf.equal]
        looks = min(leaf.compared for leaf in leaves)
        largest = sorted(leaves, key=lambda leaf: -leaf.nbytes)
        yield ReportItem(
            "equal",
            f"{count(len(leaves), 'argument')} the same on all devices, as compared in {looks} of "
            f"{count(site.calls, 'call')}: "
            f"{list_names(leaf.path for leaf in largest)}; {amount(wasted)} of copies",
            "Pass one copy, with in_axes=None; after the migration, use P() without a device axis.",
            "shardlift rule SL301",
            nbytes=wasted,
        )


def _nested(site: SiteFacts) -> Iterator[ReportItem]:
    if site.nested:
        yield ReportItem(
            "nested",
            f"called inside another pmap ({count(site.nested, 'time')} traced)",
            "Use one mesh with both axes. Its time is included in the outer site.",
            "shardlift rule SL204",
        )


def timed(finding: ReportItem) -> str:
    """The cost of a finding as text; empty if it is not known."""
    if finding.seconds > 0:
        return seconds(finding.seconds)
    return amount(finding.nbytes) if finding.nbytes > 0 else ""
