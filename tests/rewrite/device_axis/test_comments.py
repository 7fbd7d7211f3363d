"""Comments between the arguments of a pmap, and options that name all devices."""

from __future__ import annotations

import re

import pytest

from shardlift.rewrite.goal import Goal
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
        functools.partial(
            step,  # of one device
        ),
        axis_name="i",
        in_axes=(0, None),
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


def written(text: str) -> str:
    return migrated({"main.py": text}, goal=Goal.GLOBAL)[0]["main.py"]


@pytest.mark.parametrize(
    "text",
    [TEXT.replace("in_axes=(0, None),", "in_axes=(0, None),  # not mapped"), DECORATED],
)
def test_comments_between_the_arguments_keep_the_site_as_it_is(text: str) -> None:
    after, migration = migrated({"main.py": text.replace("OPTION", "")}, goal=Goal.GLOBAL)
    said = [change.reason for file in migration.files for change in file.refused]
    assert any("there are comments inside `" in one for one in said), said
    assert all(f"#{one}\n" in after["main.py"] for one in re.findall("#(.*)", text))


@pytest.mark.parametrize(
    ("option", "is_global"),
    [
        ("devices=None,", True),
        ("devices=jax.devices(),", False),
        ("devices=jax.devices()[:2],", False),
        ("axis_size=2,", False),
        ("backend='cpu',", False),
    ],
)
def test_devices_that_are_all_of_them(option: str, is_global: bool) -> None:
    after = written(TEXT.replace("OPTION", option))
    assert bool(PLACED.search(after)) == is_global


def test_a_job_of_many_processes_keeps_its_arrays() -> None:
    text = TEXT.replace("OPTION", "").replace(
        "    devices = jax", "    jax.distributed.initialize()\n    devices = jax"
    )
    after, migration = migrated({"main.py": text}, goal=Goal.GLOBAL)
    said = [change.reason for file in migration.files for change in file.refused]
    assert any("several processes may run this program" in one for one in said), said
    assert "shard_map" not in after["main.py"]


def test_the_keys_of_a_batch_may_be_asked_for() -> None:
    text = TEXT.replace("OPTION", "").replace("jnp.ones(2)", '{"w": jnp.ones(2)}')
    text = text.replace("params * scale", 'params["w"] * scale')
    text = text.replace("    print", '    assert "w" in params\n    print')
    assert PLACED.search(written(text))
    assert not PLACED.search(written(text.replace('"w" in params', '1 in params["w"]')))
