"""Calls of pmapped functions with lists and dicts: their elements have the layout."""

from __future__ import annotations

from shardlift.rewrite.goal import Goal
from tests.rewrite.test_programs import PLACED, migrated

HEAD = """\
import jax
import jax.numpy as jnp
from jax import lax


def step(params, batch):
    return lax.pmean(params[0] * batch["x"], "i")


params = [jax.device_put_replicated(jnp.ones(2), jax.local_devices())]
"""
CALL = 'out = jax.pmap(step, "i")(params, batch)\nprint(out[0])\n'


def test_arguments_beside_an_unpacked_one_are_followed() -> None:
    more = 'print("metrics", out.shape, *sorted(params))\n'
    _, result = migrated({"main.py": f"{HEAD}batch = rows\n{CALL}{more}"}, goal=Goal.GLOBAL)
    assert result.unreadable == ()
    said = [one.reason for file in result.files for one in file.refused]
    assert any("shows its shape" in one for one in said), said


def test_a_list_of_whole_trees_is_whole_at_the_site() -> None:
    after, _ = migrated({"main.py": f"{HEAD}batch = {{'x': rows}}\n{CALL}"}, goal=Goal.GLOBAL)
    assert PLACED.search(after["main.py"])
    assert 'in_specs=(jax.P(), jax.P("i"))' in after["main.py"]
