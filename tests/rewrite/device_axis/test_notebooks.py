"""`--to global` of programs with notebooks: what a notebook has a name for keeps its axis."""

from __future__ import annotations

import json

import pytest

from shardlift.rewrite.goal import Goal
from tests.rewrite.test_programs import PLACED, migrated

HEAD = "import jax\nimport jax.numpy as jnp\n"
STEP = 'p_mean = jax.pmap(lambda x: jax.lax.pmean(x, "i"), axis_name="i")\n'
USE = "means = p_mean(jax.device_put_replicated(jnp.ones(2), jax.local_devices()))\n"
SHOWN = "print(jax.tree.map(lambda x: x[0], means))\n"
SCRIPT = HEAD + STEP + USE + SHOWN


def notebook(*cells: str) -> str:
    code = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    book = [{**code, "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"cells": book, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}) + "\n"


@pytest.mark.parametrize("goal", [Goal.GLOBAL, Goal.JIT])
def test_a_site_of_a_notebook_stays_as_shard_map_has_it(goal: Goal) -> None:
    files = {"n.ipynb": notebook(HEAD, STEP, USE, SHOWN)}
    after, result = migrated(files, goal=goal)
    assert after == migrated(files)[0]
    reasons = [place.reason for file in result.files for place in file.refused]
    assert any("cells of notebooks are not followed" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("cell", "stays"),
    [
        ("from train import p_mean\np_mean(1)", True),
        ("import train\ntrain.means", True),
        ("def f():\n    import train\n    return train", True),
        ("import json", False),
    ],
)
def test_what_a_notebook_has_a_name_for_stays(cell: str, stays: bool) -> None:
    after, _ = migrated({"train.py": SCRIPT, "n.ipynb": notebook(cell)}, goal=Goal.GLOBAL)
    assert bool(PLACED.search(after["train.py"])) is not stays
