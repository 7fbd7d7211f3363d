"""`--to jit`: what becomes jit of the whole batch, and the reason for what does not."""

from __future__ import annotations

import ast

import pytest

from shardlift.migrate.rewrite import Goal
from tests.migrate.test_programs import migrated
from tests.migrate.whole_batch.steps import ALLOWED, REFUSED, program


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
