"""Comments between the arguments of a pmap, and options that name all devices."""

from __future__ import annotations

import dataclasses

import pytest

from shardlift.capture.schema import Capture
from shardlift.rewrite.goal import Goal
from tests.rewrite.jit_programs import HOLDS, recorded
from tests.rewrite.test_programs import PLACED, migrated

TEXT = """\
import functools
import jax
import jax.numpy as jnp


def step(params, scale):
    return jax.lax.pmean(params * scale, "i")


def main():
    devices = jax.local_devices()
    p_step = jax.pmap(
        # the function
        functools.partial(
            step,  # of one device
        ),
        axis_name="i",
        # params, then a number.
        in_axes=(0, None),  # not mapped
        OPTION
    )
    params = jax.device_put_replicated(jnp.ones(2), devices)
    print(jax.tree.map(lambda x: x[0], p_step(params, 2.0)))


if __name__ == "__main__":
    main()
"""
DECORATED = """\
import functools
import jax
import jax.numpy as jnp


@functools.partial(
    jax.pmap,
    axis_name="i",  # the axis
)
def step(params):
    # of one device
    return jax.lax.pmean(params, "i")


params = jax.device_put_replicated(jnp.ones(2), jax.local_devices())
print(jax.tree.map(lambda x: x[0], step(params)))
"""


def written(text: str, goal: Goal = Goal.GLOBAL, facts: Capture | None = None) -> str:
    return migrated({"main.py": text}, goal=goal, facts=facts)[0]["main.py"]


def test_comments_move_above_the_statement() -> None:
    after = written(TEXT.replace("OPTION", "donate_argnums=(0,)"))
    above = (
        "    # the function\n    # params, then a number.\n    # not mapped\n    p_step = jax.jit("
    )
    assert above in after
    assert "step,  # of one device\n" in after
    assert after.count("#") == 4


@pytest.mark.parametrize("goal", [Goal.GLOBAL, Goal.JIT])
def test_comments_move_above_a_decorator(goal: Goal) -> None:
    trial = dataclasses.replace(HOLDS, joined=())
    after = written(DECORATED, goal, recorded(DECORATED, trial, outputs=0))
    assert ("out_shardings" in after) is (goal is Goal.JIT)
    assert "\n\n# the axis\n@" in after
    assert "    # of one device\n" in after
    assert "pmap" not in after


@pytest.mark.parametrize(
    ("option", "is_global"),
    [
        ("devices=jax.local_devices(),", True),
        ("devices=devices,", True),
        ("devices=jax.devices(),", True),
        ("devices=None,", True),
        ("axis_size=jax.local_device_count(),", True),
        ("axis_size=len(devices),", True),
        ("devices=jax.devices()[:2],", False),
        ("devices=jax.devices('cpu'),", False),
        ("axis_size=2,", False),
        ("backend='cpu',", False),
    ],
)
def test_devices_that_are_all_of_them(option: str, is_global: bool) -> None:
    after = written(TEXT.replace("OPTION", option))
    assert bool(PLACED.search(after)) == is_global


def test_in_a_job_of_many_processes_local_devices_are_not_all() -> None:
    text = TEXT.replace("OPTION", "devices=jax.local_devices(),")
    text = text.replace("    devices = jax", "    jax.distributed.initialize()\n    devices = jax")
    assert not PLACED.search(written(text))
    assert "put_on_devices" not in written(text)


def test_the_keys_of_a_batch_may_be_asked_for() -> None:
    text = TEXT.replace("OPTION", "").replace("jnp.ones(2)", '{"w": jnp.ones(2)}')
    text = text.replace("params * scale", 'params["w"] * scale')
    text = text.replace("    print", '    assert "w" in params\n    print')
    assert PLACED.search(written(text))
    assert not PLACED.search(written(text.replace('"w" in params', '1 in params["w"]')))


def test_a_checkpoint_of_orbax_takes_one_copy() -> None:
    leaf = "ocp.utils.fully_replicated_host_local_array_to_global_array"
    text = "import orbax.checkpoint as ocp\n" + TEXT.replace("OPTION", "donate_argnums=(0,)")
    text = text.replace("lambda x: x[0]", leaf)
    after = written(text)
    assert PLACED.search(after)
    assert leaf not in after


@pytest.mark.parametrize("step", ["step=place(1)", '**{"step": place(1)}', "step=load(1)"])
def test_a_state_that_dataclasses_replace_changes(step: str) -> None:
    text = TEXT.replace("OPTION", "").replace(
        "import functools\n", "import dataclasses\nimport functools\n"
    )
    text = text.replace("def main", PLACE + "def main")
    text = text.replace("    print", f"    params = dataclasses.replace(params, {step})\n    print")
    assert bool(PLACED.search(written(text))) == ("place" in step)


PLACE = "def place(x):\n    return jax.device_put_replicated(x, jax.local_devices())\n\n\n"
