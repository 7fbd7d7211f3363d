"""Explains why a site differs, from its findings and from clues in its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from shardlift.capture.schema import Part
from shardlift.report.numbers import count
from shardlift.verify.compare.causes import Suspicion
from shardlift.verify.compare.verdicts import LeafDifference

WHOLE_BATCH = (
    "after, it is a jit of the whole batch and no shard_map: means, variances (batch statistics) "
    "and random keys are those of the whole batch, where each device had its own"
)


@dataclass
class Clues:
    """What the calls of a site show, besides the arrays that differ.

    The texts are the keys of dicts, which keep their order and have no duplicates.
    """

    own: bool = False  # a call differs although its inputs are equal
    whole_batch: bool = False  # it is a pmap before, and a jit of the whole batch after
    replays: int = 0  # calls that were run again on the inputs of the program before
    differing_replays: int = 0
    arguments: dict[str, None] = field(default_factory=dict)  # that changed places
    exchanged: set[str] = field(default_factory=set)  # the paths of outputs that did
    keys_and_indices: dict[str, None] = field(default_factory=dict)  # that changed
    collectives: dict[str, str] = field(default_factory=dict)  # in one program only: in which
    replaced: dict[str, None] = field(default_factory=dict)  # collectives that are others now
    inputs: str = ""  # the first inputs that differ, and why

    @property
    def itself(self) -> bool | None:
        """Whether the function itself differs, not only its inputs; None if not known."""
        if self.own or self.differing_replays:
            return True
        return False if self.replays else None


def explain(findings: Collection[LeafDifference], clues: Clues) -> Iterator[str]:
    """The likely causes, each once: what the calls show comes first, then what arrays show."""
    far = [f for f in findings if not f.close and f.part != Part.REPLAYED]
    if not far:
        return
    suspicions = {finding.suspicion for finding in far}
    if clues.own:
        yield from clues.arguments
        yield from clues.keys_and_indices
        yield from clues.replaced
        if clues.whole_batch and Suspicion.STATISTICS in suspicions:
            yield WHOLE_BATCH
    yield from dict.fromkeys(f.cause for f in far if f.part == Part.CALLS and f.cause)
    yield from _of_arrays(far, clues)
    if clues.own:
        yield from _confirmed_collectives(clues, suspicions)
    yield from _of_inputs(clues)


def _confirmed_collectives(clues: Clues, suspicions: Collection[Suspicion | None]) -> Iterator[str]:
    """The collectives of one program only that explain what the arrays look like."""
    for text, which in clues.collectives.items():
        missing = which == "before" and Suspicion.MISSING_REDUCTION in suspicions
        if missing or Suspicion.STATISTICS in suspicions:
            yield text


def _of_arrays(far: Collection[LeafDifference], clues: Clues) -> Iterator[str]:
    """The causes of differing collectives, or else of differing outputs."""
    inside = [finding for finding in far if finding.part == Part.INSIDE]
    for cause, number in _count_causes(inside, clues).items():
        lines = {finding.about for finding in inside if _cause(finding, clues) == cause}
        is_one_line = number == len(inside) and len(lines) == 1
        what = f"every array of {lines.pop()}" if is_one_line else count(number, "collective")
        yield f"{what}: {cause}"
    outputs = [f for f in far if f.part == Part.OUTPUTS and f.path not in clues.exchanged]
    if clues.inputs and not clues.itself:
        return  # outputs of other inputs: what they look like is no cause
    if outputs and not inside:
        first = min(finding.call for finding in outputs)
        early = [finding for finding in outputs if finding.call == first]
        for cause, number in _count_causes(early, clues).items():
            leaves = "leaf" if len(outputs) == 1 else "leaves"
            yield f"{number} of {len(outputs)} differing {leaves}: {cause}"


def _count_causes(findings: Collection[LeafDifference], clues: Clues) -> Counter[str]:
    return Counter(cause for finding in findings if (cause := _cause(finding, clues)))


def _cause(finding: LeafDifference, clues: Clues) -> str:
    """What a finding shows, and what it suggests if the collectives confirm that."""
    only = {*clues.collectives.values()}
    confirmed = {
        Suspicion.MISSING_REDUCTION: "before" in only,
        Suspicion.STATISTICS: bool(only) or clues.whole_batch,
    }
    suspicion = finding.suspicion
    if suspicion is None:
        return finding.cause
    if not confirmed[suspicion]:  # any few numbers look like statistics
        return "" if suspicion is Suspicion.STATISTICS else finding.cause
    return f"{finding.cause}: {suspicion}"


def _of_inputs(clues: Clues) -> Iterator[str]:
    if clues.differing_replays:
        yield (
            f"this function itself: on the inputs of the program before, too, "
            f"{clues.differing_replays} of {count(clues.replays, 'call')} gave another result"
        )
    elif clues.own:
        return
    elif clues.replays:
        yield (
            f"not this function: on the inputs of the program before, "
            f"{count(clues.replays, 'call')} gave the same results as before. Its inputs differ: "
            + (clues.inputs or "look at the sites before it")
        )
    elif clues.inputs:
        yield f"its inputs differ: {clues.inputs}"
