"""Calls with keyword arguments become calls by position, where the function has them in order."""

from __future__ import annotations

import pytest

from shardlift.rewrite.goal import Goal
from tests.rewrite.test_programs import PLACED, migrated

SCRIPT = """\
import functools

import jax
import jax.numpy as jnp


def step(model, state, rows, rate=1.0):
    return jax.lax.pmean(state * model + rate * rows.sum(), "i")


model = 2.0
p_step = jax.pmap(functools.partial(step, model=model, rate=3.0), "i")
state = jax.device_put_replicated(jnp.ones(2), jax.local_devices())
rows = jnp.arange(8.0).reshape((jax.local_device_count(), -1))
print(p_step(state=state, rows=rows)[0])
"""
CALL = "p_step(state=state, rows=rows)"
STEP = "functools.partial(step, model=model, rate=3.0)"


def written(text: str) -> str:
    return migrated({"main.py": text}, goal=Goal.GLOBAL)[0]["main.py"]


def test_a_partial_and_the_calls_give_arguments_by_position() -> None:
    after = written(SCRIPT)
    assert "functools.partial(step, model, rate=3.0)" in after
    assert "p_step(state, rows)" in after
    assert PLACED.search(after)


def test_a_partial_over_several_lines_moves_with_its_call() -> None:
    lines = "functools.partial(\n    step,\n    model=model,\n    rate=3.0)"
    after = written(SCRIPT.replace(STEP, lines))
    assert "step,\n" in after
    assert "model,\n" in after
    assert "model=" not in after
    compile(after, "main.py", "exec")


def test_a_function_without_a_partial() -> None:
    text = SCRIPT.replace(STEP, "step").replace("(model, state, rows, rate=1.0)", "(state, rows)")
    after = written(text.replace("state * model + rate * rows", "state + rows"))
    assert "p_step(state, rows)" in after
    assert PLACED.search(after)


def test_a_call_with_some_arguments_by_position() -> None:
    after = written(SCRIPT.replace(CALL, "p_step(state, rows=(rows + 1))").replace("model=m", "m"))
    assert "p_step(state, (rows + 1))" in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CALL, "p_step(rows=rows, state=state)"),  # which is evaluated first would change
        (CALL, "p_step(**{'state': state, 'rows': rows})"),
        (CALL, "p_step(state=  # the state\n       state, rows=rows)"),
        (STEP, "functools.partial(step, rate=3.0, model=model)"),  # it cannot move to the front
        (STEP + ', "i"', STEP + ', "i", donate_argnums=(0,)'),  # which are not donated by name
        ("def step(model, state, rows, ", "def step(model, state, *, rows, "),
        (STEP, "unknown(step)"),
        ("print(", "p_step(state=state, rows=rows, rate=rows)\nprint("),
    ],
)
def test_other_keywords_stay(old: str, new: str) -> None:
    text = SCRIPT.replace(old, new)
    after = written(text)
    assert text.count("state=") == after.count("state=")
    assert "step, model," not in after
    assert not PLACED.search(after)


def test_a_function_that_is_not_known_is_no_failure() -> None:
    text = SCRIPT.replace(STEP, "unknown(step)").replace(CALL, "p_step(state, rows)")
    _, result = migrated({"main.py": text}, goal=Goal.GLOBAL)
    said = [one.reason for file in result.files for one in file.refused]
    assert result.unreadable == ()
    assert not any("please report" in one for one in said), said
