"""The layout of each argument and output of a pmapped function, and why it is not another."""

import pytest

from shardlift.capture.schema import Capture, SiteFacts
from shardlift.rewrite.device_axis.followed_program import FollowedProgram
from shardlift.rewrite.device_axis.global_sites import GlobalSite
from shardlift.rewrite.device_axis.reasons import ObstacleKind, obstacle
from shardlift.rewrite.device_axis.rewrites import analyse
from shardlift.rewrite.device_axis.solve import AxisLayout, Decision, decide, findings
from shardlift.source.project import Project
from shardlift.source.text import Source
from tests.rewrite.captures import all_proven, dated, proof

WHOLE, GLOBAL, STACKED = AxisLayout.WHOLE, AxisLayout.GLOBAL, AxisLayout.STACKED
HEAD = """\
import jax
from flax import jax_utils
from flax.training import common_utils
from jax import lax
def step(state, batch): return STEP
p_step = jax.pmap(step, axis_name="i")
"""
SAME = 'lax.pmean(state + batch, "i")'
PAIR = "(state, batch)"


def followed(text: str, facts: Capture | None = None) -> FollowedProgram:
    """A program, with a run that proved all its outputs if no other is given."""
    files = {"m.py": text}
    captures = dated(facts or all_proven(files), files)
    return analyse([Project.of(Source("m.py", text)).file("m.py")], captures)


def solved(
    body: str, returned: str = SAME, facts: Capture | None = None
) -> tuple[GlobalSite, Decision]:
    """The site of `p_step` in a program, and what is decided."""
    program = followed(HEAD.replace("STEP", returned) + body, facts)
    (site,) = program.sites.values()
    return site, decide(program)


def proven(*needs: tuple[int, ...] | None) -> Capture:
    """A run that proved each output the same on all devices if some arguments are."""
    proofs = tuple(proof(f"output[{k}]", need) for k, need in enumerate(needs))
    return Capture(sites=(SiteFacts("m.py", 6, "step", axis_size=8, calls=1, proofs=proofs),))


STATE = "s = jax_utils.replicate(1.0)\n"
BATCH = "b = common_utils.shard(data)\n"
CALL = "out = p_step(s, b)\n"
NOT_NOW = obstacle(ObstacleKind.AS_TOLD, text="not now")
READ = "print(jax_utils.unreplicate(out))\n"


@pytest.mark.parametrize(
    ("body", "layouts"),
    [
        (STATE + BATCH + CALL + READ, (WHOLE, GLOBAL, WHOLE)),
        (STATE + BATCH + CALL + "print(out[0])\n", (WHOLE, GLOBAL, WHOLE)),
        (STATE + BATCH + CALL + "print(float(out[0]))\n", (WHOLE, GLOBAL, WHOLE)),
        (STATE + BATCH + CALL + "print(out[1])\n", (WHOLE, GLOBAL, STACKED)),
        (STATE + BATCH + CALL, (WHOLE, GLOBAL, STACKED)),  # a global that nothing reads
        (STATE + BATCH + "print(s)\n" + CALL + READ, (STACKED, GLOBAL, WHOLE)),
        (STATE + BATCH + "print(b)\n" + CALL + READ, (WHOLE, STACKED, WHOLE)),
        (STATE + BATCH + "print(b[0])\n" + CALL + READ, (WHOLE, STACKED, WHOLE)),
        (STATE + BATCH + "s = p_step(s, b)\nprint(jax_utils.unreplicate(s))\n",
         (WHOLE, GLOBAL, WHOLE)),
        (STATE + BATCH + "s = p_step(s, b)\nprint(s)\n", (WHOLE, GLOBAL, STACKED)),
        (STATE + BATCH + "while c:\n    s = p_step(s, b)\nprint(s)\n", (STACKED, GLOBAL, STACKED)),
        (STATE + BATCH + "if c:\n    s = load()\n" + CALL + READ, (STACKED, GLOBAL, WHOLE)),
        (STATE + BATCH + CALL + "if c:\n    s = out[0]\n" + CALL + READ, (STACKED, GLOBAL, WHOLE)),
        ("s = load()\nb = load()\n" + CALL + READ, (STACKED, STACKED, WHOLE)),
        ("s = load()\n" + BATCH + CALL + READ, (STACKED, GLOBAL, WHOLE)),
        (STATE + "b = s\n" + CALL + READ, (WHOLE, WHOLE, WHOLE)),
        # Rows of an array, not elements of a tuple.
        (STATE + BATCH + "x, y = p_step(s, b)\nprint(jax_utils.unreplicate(x))\n",
         (WHOLE, GLOBAL, STACKED)),
        (STATE + BATCH + CALL + READ + "p_step(b, b)\n", (STACKED, STACKED, WHOLE)),
        (STATE + BATCH + CALL + READ + "p_step(*pair)\n", (STACKED, STACKED, STACKED)),
        (STATE + BATCH + CALL + READ + "register(p_step)\n", (STACKED, STACKED, STACKED)),
    ],
)  # fmt: skip
def test_layouts(body: str, layouts: tuple[AxisLayout, ...]) -> None:
    site, decision = solved(body)
    got = decision.argument(site, 0), decision.argument(site, 1), *decision.outputs(site)
    assert got == layouts


@pytest.mark.parametrize(
    ("needs", "layouts"),
    [
        (((), ()), (WHOLE, WHOLE)),
        (((0,), ()), (WHOLE, WHOLE)),
        (((0,), None), (WHOLE, STACKED)),
        (((1,), ()), (STACKED, WHOLE)),  # the batch is different on each device
        ((None, None), (STACKED, STACKED)),
    ],
)
def test_an_output_is_whole_if_that_is_proven_for_whole_arguments(
    needs: tuple[tuple[int, ...] | None, ...], layouts: tuple[AxisLayout, ...]
) -> None:
    read = "print(jax_utils.unreplicate(x), jax_utils.unreplicate(y))"
    body = f"{STATE}{BATCH}x, y = p_step(s, b)\n{read}\n"
    site, decision = solved(body, PAIR, proven(*needs))
    assert tuple(decision.outputs(site)) == layouts


def test_a_state_that_comes_back_unproven_takes_its_argument_along() -> None:
    body = f"{STATE}{BATCH}while c:\n    s, y = p_step(s, b)\nprint(jax_utils.unreplicate(s))\n"
    for needs, layout in (((0,), WHOLE), ((0, 1), STACKED), (None, STACKED)):
        site, decision = solved(body, PAIR, proven(needs, ()))
        assert decision.argument(site, 0) is decision.outputs(site)[0] is layout


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (STATE + BATCH + "keep(s)\n" + CALL + READ, "it is given to keep, at m.py:9"),
        ("s = load()\n" + BATCH + CALL + READ, "`load()` at m.py:7, which is not followed"),
        (STATE + BATCH + "if c:\n    s = jax.random.split(k, jax.local_device_count())\n" + CALL,
         "it has one row per device"),
        (STATE + BATCH + CALL + READ + "register(p_step)\n", "is given to register, at m.py:11"),
        (STATE + BATCH + "def f(s, b): return p_step(s, b)\nregister(f)\n",
         "parameter `s` at m.py:9, whose callers are not all known (see m.py:10)"),
        (STATE + BATCH + "print(s)  # x\n" + CALL + READ, "it is given to print"),
        (STATE + "b = rows()\nout = p_step(jax_utils.replicate(  # why\n2), b)\n" + READ,
         "there are comments inside"),
        (STATE + BATCH + CALL + "def f(out, jax): return jax_utils.unreplicate(out)\nf(out, 1)\n",
         "the name `jax` means something else at m.py:10"),
    ],
)  # fmt: skip
def test_the_reason_names_what_is_in_the_way(body: str, reason: str) -> None:
    program = followed(HEAD.replace("STEP", SAME) + body)
    said = [finding.text for finding in findings(program, decide(program))]
    assert any(reason in one for one in said), said


@pytest.mark.parametrize(("axes", "layouts"), [("(0, 0)", [WHOLE]), ("None", [WHOLE])])
def test_an_output_tuple_that_is_used_as_one_tree(axes: str, layouts: list[AxisLayout]) -> None:
    read = "print(out)\n" if axes == "None" else READ
    text = HEAD.replace("STEP", PAIR).replace('"i")\n', f'"i", out_axes={axes})\n')
    program = followed(text + STATE + BATCH + CALL + read)
    (site,) = program.sites.values()
    assert decide(program).outputs(site) == layouts


def test_nobody_is_told_to_read_one_row_of_what_differs_between_devices() -> None:
    body = f"{STATE}{BATCH}x, y = p_step(s, b)\nprint(x.shape, y.shape)\n"
    program = followed(HEAD.replace("STEP", PAIR) + body, proven((), None))
    same, differing = sorted(finding.text for finding in findings(program, decide(program)))
    assert "output[0] of step" in same
    assert "if it is the same on all devices, read its first row there, `x[0]`" in same
    assert "output[1] of step" in differing
    assert "return its lax.pmean, or return it apart" in differing
    assert "[0]`" not in differing


def test_a_site_that_is_left_takes_the_sites_along_that_share_its_arrays() -> None:
    body = (
        f'{STATE}{BATCH}q_step = jax.pmap(step, axis_name="i")\nt = jax_utils.replicate(2.0)\n'
        'r_step = jax.pmap(step, axis_name="i")\n'
        "print(jax_utils.unreplicate((p_step(s, b))), jax_utils.unreplicate(q_step(s, b)))\n"
        "c = common_utils.shard(data)\nprint(jax_utils.unreplicate(r_step(t, c)))\n"
    )
    program = followed(HEAD.replace("STEP", SAME) + body)
    p_site, q_site, r_site = program.sites.values()
    before, after = decide(program), decide(program, {p_site: NOT_NOW})
    assert [before.is_changed(site) for site in (p_site, q_site, r_site)] == [True] * 3
    assert [after.is_changed(site) for site in (p_site, r_site)] == [False, True]
    assert after.argument(q_site, 0) is after.argument(q_site, 1) is STACKED


@pytest.mark.parametrize("kind", ObstacleKind)
def test_every_obstacle_says_what_to_do_about_it(kind: ObstacleKind) -> None:
    fact, advice = kind.value
    assert fact
    assert bool(advice) is (kind is not ObstacleKind.AS_TOLD)
