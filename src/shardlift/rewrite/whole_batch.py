"""`migrate --to jit`: data-parallel steps as `jax.jit` over the whole batch.

A recorded run has tried each step on the whole batch, over an axis of size 1: see
`recording.whole_batch_trial`. The steps that agree are written like this. Their collectives stay:
over such an axis they return what they are given.
"""

from collections.abc import Sequence
from enum import Enum

from shardlift.capture.schema import Untried
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.reasons import Obstacle, obstacle
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision


class JitObstacle(Enum):
    """Why a step does not become `jax.jit` of the whole batch; `detail` is filled in."""

    NOT_RECORDED = ("no recorded run of this text shows what it computes", "record one")
    NOT_TRIED = ("in the recorded run it was not tried on the whole batch", "{detail}")
    DIFFERS = ("on the whole batch it computes something else", "{detail}")
    INSIDE = ("it is also called inside of another program, where it was not looked at",)
    ARGUMENT = ("argument {detail} is laid out in another way than in the recorded run",)
    OUTPUT = ("an output keeps its device axis",)


_UNTRIED = {
    Untried.ONE_DEVICE: "it ran on one device",
    Untried.MANY_PROCESSES: "it ran in many processes",
    Untried.NO_COLLECTIVE: "it reduces nothing over the devices",
    Untried.COLLECTIVE: "it needs devices for more than reductions over all of them",
    Untried.SIDE_EFFECTS: "it calls back to the host",
    Untried.EQUAL_ROWS: "its arguments were the same on all devices, which shows nothing",
    Untried.RANDOM_KEYS: "it is given one random key per device",
    Untried.NO_ROWS: "an argument that differs between devices has no axis of rows",
    Untried.TOO_LARGE: "its arguments were too large",
    Untried.TOO_SLOW: "it took too long to compile",
    Untried.FAILED: "it failed there",
}


Steps = dict[GlobalSite, Sequence[AxisLayout] | Obstacle]


def choose(program: FollowedProgram, decision: Decision) -> Steps:
    """The layouts of sites that become jit of the whole batch, and why others do not."""
    steps: Steps = {}
    for site in program.sites.values():
        if decision.obstacle(site) is None and site.results:
            layouts = [decision.argument(site, k) for k in range(site.arguments or 0)]
            steps[site] = _refusal(site, decision, layouts) or layouts
    return steps


def _refusal(
    site: GlobalSite, decision: Decision, layouts: Sequence[AxisLayout]
) -> Obstacle | None:
    """Why recorded runs do not show that a step computes the same, or why it is not written."""
    facts = site.facts
    trial = None if facts is None or site.doubt is not None else facts.whole_batch
    if facts is None or trial is None:
        return obstacle(JitObstacle.NOT_RECORDED)
    if trial.untried is not None:
        why = _UNTRIED[trial.untried] + (f" ({trial.error})" if trial.error else "")
        return obstacle(JitObstacle.NOT_TRIED, detail=why)
    if not trial.holds:
        why = f"{trial.at} differs by {trial.difference:.1e} of its largest number"
        return obstacle(JitObstacle.DIFFERS, detail=why)
    if facts.nested or facts.transformed:
        return obstacle(JitObstacle.INSIDE)
    for number, layout in enumerate(layouts):
        if layout is not (AxisLayout.GLOBAL if number in trial.joined else AxisLayout.WHOLE):
            return obstacle(JitObstacle.ARGUMENT, detail=number)
    if any(layout is not AxisLayout.WHOLE for layout in decision.outputs(site)):
        return obstacle(JitObstacle.OUTPUT)
    return None
