"""`--strict-vma`: which gradients are taken of varying values, and where check_vma stays off."""

from __future__ import annotations

import pytest

from shardlift.capture.schema import Capture, Collective, Proof
from shardlift.capture.schema import Site as Recorded
from shardlift.migrate.device_axis.rewrites import analyse
from shardlift.migrate.device_axis.sites import Site
from shardlift.migrate.device_axis.solve import Decision, decide
from shardlift.migrate.device_axis.strict import casts, obstacle
from shardlift.source.edits import apply_edits
from shardlift.source.project import Project
from shardlift.source.text import Source
from tests.migrate.captures import dated

PROGRAM = """\
import functools
import jax
from flax import jax_utils
from flax.training import common_utils
def step(state, batch):
    BODY
    return update(state, grads)
p_step = jax.pmap(step, axis_name="i")
s = jax_utils.replicate(init())
for b in loader:
    s = p_step(s, common_utils.shard(b))
print(jax_utils.unreplicate(s))
"""
PROOFS = (Proof("output", 1, (0,)),)


def solved(
    body: str, recorded: bool = True, collectives: tuple[Collective, ...] = ()
) -> tuple[str, Site, Decision]:
    text = PROGRAM.replace("BODY", body)
    line = text[: text.index("p_step =")].count("\n") + 1
    run = Recorded(
        "m.py", line, "step", axis_size=8, calls=1, proofs=PROOFS, collectives=collectives
    )
    facts = Capture(sites=(run,)) if recorded else None
    program = analyse([Project.of(Source("m.py", text)).file("m.py")], dated(facts, {"m.py": text}))
    (site,) = program.sites.values()
    return text, site, decide(program)


CAST = 'jax.lax.pcast(state, "i", to="varying")'


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("grads = jax.grad(loss)(state, batch)", f"jax.grad(loss)({CAST}, batch)"),
        ("value, grads = jax.value_and_grad(loss)(state, batch)", f"(loss)({CAST}, batch)"),
        ("g = jax.grad(loss)\n    grads = g(state, batch)", f"grads = g({CAST}, batch)"),
        ("grads = jax.grad(loss)(state.params, batch)", 'pcast(state.params, "i", to="varying")'),
        ("p = state['w']\n    grads = jax.grad(loss)(p, batch)", 'pcast(p, "i", to="varying")'),
        ("grads = jax.grad(loss, argnums=1)(batch, state)", f"(batch, {CAST})"),
        ("grads = jax.grad(loss, argnums=(0, 1))(batch, state)", f"(batch, {CAST})"),
        ("grads = jax.grad(loss)(batch, state)", "jax.grad(loss)(batch, state)"),
        ("grads = 0", "grads = 0"),
    ],
)
def test_gradients_with_respect_to_whole_values_are_cast(body: str, after: str) -> None:
    text, site, decision = solved(body)
    assert obstacle(site, decision) is None
    edits = [edit for _, match in casts(site, decision) for edit in match.edits]
    changed = apply_edits(text, edits)
    assert after in changed
    assert ("pcast" in changed) == ("pcast" in after)


def test_a_gradient_in_a_function_that_is_called() -> None:
    body = "grads = inner(batch, state)\n    return update(state, grads)\ndef inner(x, y):\n    "
    text, site, decision = solved(f"{body}return jax.grad(loss)(y, x)\ndef other():\n    pass")
    edits = [edit for _, match in casts(site, decision) for edit in match.edits]
    assert 'jax.grad(loss)(jax.lax.pcast(y, "i", to="varying"), x)' in apply_edits(text, edits)


THROUGH = (Collective("psum", ("i",), 1, 4, gradient=True),)


@pytest.mark.parametrize(
    "body", ["grads = jax.grad(loss)(f(state), batch)", "grads = jax.grad(loss)(unknown, batch)"]
)
def test_check_vma_stays_off_for_a_gradient_that_may_be_of_either(body: str) -> None:
    _, site, decision = solved(body)
    assert "which may be whole or not" in (obstacle(site, decision) or "")


def test_check_vma_stays_off_where_a_run_does_not_allow_it() -> None:
    _, site, decision = solved("grads = 0", recorded=False)
    assert obstacle(site, decision) == "no run of it was recorded"
    _, site, decision = solved("grads = 0", collectives=THROUGH)
    assert "a gradient goes through a collective" in (obstacle(site, decision) or "")
