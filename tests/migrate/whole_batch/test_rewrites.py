"""`--to jit`: what becomes jit of the whole batch, and the reason for what does not."""

from __future__ import annotations

import ast

import pytest

from shardlift.migrate.goal import Goal
from tests.migrate.test_programs import migrated
from tests.migrate.whole_batch.steps import (
    ALLOWED,
    HARMLESS,
    LINES,
    REFUSED,
    program,
    with_line,
)


def written(text: str) -> tuple[str, list[str]]:
    """The text after the migration, and why something is left."""
    after, result = migrated({"main.py": text}, goal=Goal.JIT)
    return after["main.py"], [one.reason for file in result.files for one in file.refused]


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str) -> None:
    after, reasons = written(program(ALLOWED[name]))
    assert reasons == []
    assert 'in_specs=(jax.P(), jax.P("batch"))' in after
    names = {node.attr for node in ast.walk(ast.parse(after)) if isinstance(node, ast.Attribute)}
    assert not names & {"pmap", "pmean", "psum", "shard_map"}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    body, reason = REFUSED[name]
    after, reasons = written(program(body))
    assert "jit_over_devices" not in after
    said = [one for one in reasons if "jax.jit of the whole batch" in one]
    assert len(said) == 1
    assert reason in said[0]


@pytest.mark.parametrize("name", LINES)
def test_refused_for_a_line(name: str) -> None:
    line, reason = LINES[name]
    after, reasons = written(program(with_line(line)))
    assert "jit_over_devices" not in after
    (said,) = [one for one in reasons if "jax.jit of the whole batch" in one]
    assert reason in said


@pytest.mark.parametrize("name", HARMLESS)
def test_a_line_that_changes_nothing(name: str) -> None:
    after, reasons = written(program(with_line(HARMLESS[name])))
    assert reasons == []
    assert "jit_over_devices" in after


SHARED = """    def loss_fn(p):
        return jnp.mean((model(p, batch["x"]) - batch["y"]) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return sgd(params, reduce(grads)), reduce(loss)


def reduce(tree):
    return lax.pmean(tree, "batch")


def evaluate(params, batch):
    return reduce(EVALUATED)


p_eval = jax.pmap(evaluate, axis_name="batch")"""
EVALUATION = "\n    print(float(p_eval(params, shard(data()))[0]))\n    return jax.device_get("


@pytest.mark.parametrize(
    ("evaluated", "is_jit"),
    [
        ('jnp.mean(model(params, batch["x"]))', True),
        ('jnp.sum(model(params, batch["x"]))', False),
    ],
)
def test_a_function_with_a_collective_that_two_steps_call(evaluated: str, is_jit: bool) -> None:
    text = program(SHARED.replace("EVALUATED", evaluated))
    after, reasons = written(text.replace("\n    return jax.device_get(", EVALUATION))
    assert ("lax.pmean(" in after) is not is_jit
    assert ("p_step = jit_over_devices(" in after) is is_jit
    assert ("p_eval = jit_over_devices(" in after) is is_jit
    if not is_jit:
        assert any("reduce, which has a collective, is used at /p/main.py:" in r for r in reasons)
        assert any("reduces a sum over the rows of one device" in r for r in reasons)


@pytest.mark.parametrize(
    "other",
    [
        'table = {"step": jax.pmap(step, axis_name="batch")}',
        "table = [step]",
        'table = jax.vmap(step, axis_name="batch")',
    ],
)
def test_a_step_that_is_used_elsewhere_keeps_its_collectives(other: str) -> None:
    text = program(ALLOWED["the usual step"])
    after, reasons = written(text.replace("\n\ndef data(", f"{other}\n\n\ndef data(", 1))
    assert after.count("lax.pmean(") == 2
    assert "jit_over_devices" not in after
    assert any("step, which has a collective, is used at" in reason for reason in reasons)
