"""What several recorded runs say together, and which of them are believed."""

import dataclasses

import pytest

from shardlift.capture.schema import Capture, Proof, SiteFacts
from shardlift.rewrite.device_axis.rewrites import analyse
from shardlift.rewrite.device_axis.solve import AxisLayout, decide, findings
from shardlift.source.project import Project
from shardlift.source.text import Source

TEXT = """\
import jax
from flax import jax_utils
from flax.training import common_utils
def step(state, batch): return state, batch
p_step = jax.pmap(step, axis_name="i")
s = jax_utils.replicate(1.0)
s, y = p_step(s, common_utils.shard(data))
print(jax_utils.unreplicate(s), jax_utils.unreplicate(y))
"""
WHOLE, STACKED = AxisLayout.WHOLE, AxisLayout.STACKED


def recorded(*needs: tuple[int, ...] | None, size: int = 8) -> SiteFacts:
    proofs = tuple(
        Proof(f"output[{k}]", 1, need)
        if need is not None
        else Proof(f"output[{k}]", 1, None, f"output[{k}]['x']", "a reason")
        for k, need in enumerate(needs)
    )
    return SiteFacts("m.py", 5, "step", axis_size=size, calls=1, proofs=proofs)


def run(*needs: tuple[int, ...] | None, text: str = TEXT, size: int = 8) -> Capture:
    return Capture(sites=(recorded(*needs, size=size),), sources={"m.py": Source("", text).digest})


def outputs(*captures: Capture) -> tuple[list[AxisLayout], str]:
    """The layouts of the outputs, and everything that is said about what keeps its axis."""
    program = analyse([Project.of(Source("m.py", TEXT)).file("m.py")], captures)
    (site,) = program.sites.values()
    decision = decide(program)
    return decision.outputs(site), "\n".join(one.text for one in findings(program, decision))


BOTH, STALE = run((0,), ()), run((0,), (), text=TEXT + "# more\n")


@pytest.mark.parametrize(
    ("captures", "layouts", "said"),
    [
        ([BOTH, BOTH], [WHOLE, WHOLE], ""),
        ([BOTH, run((0,), None)], [WHOLE, STACKED], "output[1]['x'] is not proven to be the same"),
        ([BOTH, run((0, 1), ())], [STACKED, WHOLE], ""),
        ([BOTH, run((0,))], [], "about what step returns, output[0], output[1] and output[0]"),
        ([BOTH, run()], [], "has no proof for step"),
        ([run((0,), None), run((), (), size=1)], [WHOLE, STACKED], ""),
        ([run((), (), size=1)], [], "recorded on one device"),
        ([STALE], [], "m.py has changed since the run was recorded"),
        ([STALE, run((0,), None)], [WHOLE, STACKED], ""),
        ([dataclasses.replace(BOTH, sources={})], [], "record a run that calls it, as it is now"),
        ([dataclasses.replace(run(), sites=()), BOTH], [WHOLE, WHOLE], ""),
    ],
)
def test_a_fact_has_to_hold_in_all_runs_of_this_text(
    captures: list[Capture], layouts: list[AxisLayout], said: str
) -> None:
    got, reasons = outputs(*captures)
    assert got == layouts or (not layouts and WHOLE not in got)
    assert said in reasons


@pytest.mark.parametrize("change", [{"nested": 1}, {"transformed": 1}])
def test_what_hides_programs_in_one_run_hides_them_in_all(change: dict[str, object]) -> None:
    hidden = dataclasses.replace(recorded((0,), ()), **change)  # type: ignore[arg-type]
    capture = dataclasses.replace(run((0,), ()), sites=(hidden,))
    assert WHOLE not in outputs(capture, run((0,), ()))[0]
    assert WHOLE not in outputs(run((0,), ()), capture)[0]


def test_a_recording_counts_for_a_copy_of_its_file() -> None:
    facts = run((0,), ())
    copied = dataclasses.replace(
        facts,
        sites=tuple(dataclasses.replace(site, file="old.py") for site in facts.sites),
        sources={"old.py": Source("", TEXT).digest},
    )
    assert outputs(copied)[0] == [WHOLE, WHOLE]
    other = dataclasses.replace(copied, sources={"old.py": Source("", TEXT + "# more").digest})
    assert {*outputs(other)[0]} == {STACKED}
