"""A stacked state that is saved: the finding says what is on disk and how both forms are loaded."""

from __future__ import annotations

import re

import numpy as np
import pytest

from shardlift.rewrite.goal import Goal
from tests.rewrite.test_programs import migrated

PROGRAM = """\
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from flax.training import checkpoints
from jax import lax

p_step = jax.pmap(lambda state, x: lax.pmean(state + x, "i"), axis_name="i")


def main(file, manager):
    state = jax.device_put_replicated(jnp.ones(2), jax.local_devices())
    for _ in range(2):
        state = p_step(state, np.ones((8, 2)).reshape((jax.local_device_count(), -1, 2)))
    SAVE


main(open("state", "wb"), ocp.PyTreeCheckpointer())
"""


def reasons(save: str) -> str:
    _, result = migrated({"main.py": PROGRAM.replace("SAVE", save)}, goal=Goal.GLOBAL)
    return "\n".join(one.reason for file in result.files for one in file.refused)


@pytest.mark.parametrize(
    "save",
    [
        'checkpoints.save_checkpoint("folder", state, 1)',
        "pickle.dump(state, file)",
        "pickle.dump(jax.device_get(state), file)",
        'np.save("state.npy", state)',
        'manager.save("folder", state)',
    ],
)
def test_a_state_that_is_saved_stacked(save: str) -> None:
    said = reasons(save)
    assert "keeps its device axis" in said
    assert "/p/main.py:17. It is saved with one copy per device" in said


def test_elsewhere_nothing_is_said_about_files() -> None:
    assert "saved" not in reasons("keep(state)")
    assert "saved" not in reasons("pickle.dump(jax.tree.map(lambda x: x[0], state), file)")


def test_the_code_that_loads_both_forms() -> None:
    import jax

    (code,) = re.findall(
        r"`(jax\.tree\.map\(lambda x, like.*?)`", reasons("pickle.dump(state, file)")
    )
    state = {"w": np.arange(6.0).reshape(2, 3), "step": np.float32(3)}
    stacked = jax.tree.map(lambda x: np.stack([x] * 4), state)
    for loaded in (stacked, state):
        got = eval(code, {"jax": jax, "loaded": loaded, "state": state})
        jax.tree.map(np.testing.assert_array_equal, got, state)
