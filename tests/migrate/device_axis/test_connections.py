"""Calls of pmapped functions with lists and dicts: their elements have the layout."""

from __future__ import annotations

import ast

import pytest

from shardlift.migrate.device_axis import visitor
from shardlift.migrate.goal import Goal
from tests.migrate.test_programs import PLACED, migrated

HEAD = """\
import jax
import jax.numpy as jnp
from jax import lax


def step(params, batch):
    return lax.pmean(params[0] * batch["x"], "i")


params = [jax.device_put_replicated(jnp.ones(2), jax.local_devices())]
"""
CALL = 'out = jax.pmap(step, "i")(params, batch)\nprint(out[0])\n'


@pytest.mark.parametrize(
    "text",
    [
        "import jax\n\ndata = [1]\njax.pmap(lambda x: x + 1)(data)\n",
        f"{HEAD}batch = {{'x': rows}}\nfor key in batch:\n    pass\n{CALL}",
    ],
)
def test_a_list_or_a_dict_that_is_iterated_over_is_followed(text: str) -> None:
    _, result = migrated({"main.py": text}, goal=Goal.GLOBAL)
    assert result.unreadable == ()
    assert any("keeps its device axis" in one.reason for f in result.files for one in f.refused)


def test_a_list_of_whole_trees_is_whole_at_the_site() -> None:
    after, _ = migrated({"main.py": f"{HEAD}batch = {{'x': rows}}\n{CALL}"}, goal=Goal.GLOBAL)
    assert PLACED.search(after["main.py"])
    assert 'in_specs=(jax.P(), jax.P("i"))' in after["main.py"]


STEPS = """\
import jax
import jax.numpy as jnp


def step(params, batch):
    return jax.lax.pmean(params * batch, "i")


p_step = jax.pmap(step, axis_name="i")


def place(x):
    return jax.device_put_replicated(x, jax.local_devices())
"""
TRAIN = """\
from steps import p_step, place

params = place(1.0)
print(float(jax.tree.map(lambda x: x[0], p_step(params, rows))))
"""


@pytest.mark.parametrize(
    ("lost", "whole"),
    [("assert 1\n", True), ("from train import params\n\nassert params\n", False)],
)
def test_a_file_that_cannot_be_followed_keeps_only_what_it_names(
    lost: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setitem(visitor._VISITS, ast.Assert, fail)
    train = f"import jax\n{TRAIN}"
    after, result = migrated(
        {"steps.py": STEPS, "train.py": train, "lost.py": lost}, goal=Goal.GLOBAL
    )
    assert any("KeyError('a bug')" in why for _, why in result.unreadable)
    assert bool(PLACED.search(after["train.py"])) == whole
