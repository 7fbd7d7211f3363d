"""Explains why a site differs, from its findings and from its inputs."""

from collections import Counter
from collections.abc import Collection, Iterator

from shardlift.capture.schema import Part
from shardlift.report.numbers import count
from shardlift.verify.compare.verdicts import LeafDifference


def explain(
    findings: Collection[LeafDifference], itself: bool | None = None, inputs: str = ""
) -> Iterator[str]:
    """The likely causes, each once.

    ``itself``: whether the function itself differs; ``inputs``: its first inputs that differ.
    """
    far = [finding for finding in findings if not finding.close]
    inside = [finding for finding in far if finding.part == Part.INSIDE]
    for cause, number in _count_causes(inside).items():
        lines = {finding.about for finding in inside if finding.cause == cause}
        is_one_line = number == len(inside) and len(lines) == 1
        what = f"every array of {lines.pop()}" if is_one_line else count(number, "collective")
        yield f"{what}: {cause}"
    if not inside and (itself or not inputs):  # of other inputs it is no cause
        yield from _of_outputs([f for f in far if f.part == Part.OUTPUTS])
    if not itself and inputs and far:
        yield f"its inputs differ: {inputs}"


def _of_outputs(outputs: Collection[LeafDifference]) -> Iterator[str]:
    """What the outputs of the first differing call look like."""
    first = min((finding.call for finding in outputs), default=0)
    early = [finding for finding in outputs if finding.call == first]
    for cause, number in _count_causes(early).items():
        leaves = "leaf" if len(outputs) == 1 else "leaves"
        yield f"{number} of {len(outputs)} differing {leaves}: {cause}"


def _count_causes(findings: Collection[LeafDifference]) -> Counter[str]:
    return Counter(finding.cause for finding in findings if finding.cause)
