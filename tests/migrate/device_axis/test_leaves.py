"""A row of a leaf that is read by its index, where a recorded run shows that it is one array."""

from __future__ import annotations

import pytest

from shardlift.capture.schema import Capture, Leaf, Proof, Site
from shardlift.migrate.goal import Goal
from tests.migrate.test_programs import PLACED, migrated

SCRIPT = """\
import jax
from flax import jax_utils


def train_step(state, x):
    return new(jax.lax.pmean(x, "i"), state), jax.lax.pmean(x, "i")


def make():
    return 1, jax.pmap(train_step, "i")


def main(loader, start):
    state = jax_utils.replicate(start)
    made = make()
    count, p_step = made
    for batch in loader:
        state, loss = p_step(state, batch)
        params = state.params["net"]
        print(params["w"]["kernel"][0])
    return jax_utils.unreplicate(state)
"""


def facts(path: str) -> Capture:
    outputs = tuple(
        Leaf(one, "float32", (8,), 32, 0, "P('i')", "")  # type: ignore[arg-type]
        for one in (f"output[0].params['net']['w']{path}", "output[1]")
    )
    proofs = (Proof("output[0]", 1, (0,)), Proof("output[1]", 1, ()))
    site = Site("main.py", 10, "train_step", axis_size=8, calls=2, outputs=outputs, proofs=proofs)
    return Capture(sites=(site,))


def written(text: str, path: str = "['kernel']") -> str:
    return migrated({"main.py": text}, goal=Goal.GLOBAL, facts=facts(path))[0]["main.py"]


def test_the_row_of_an_array_is_the_array() -> None:
    after = written(SCRIPT)
    assert PLACED.search(after)
    assert 'print(params["w"]["kernel"])' in after


@pytest.mark.parametrize("path", ["['kernel'][0]", "['other']"])
def test_an_element_of_a_list_or_an_unknown_leaf_stays(path: str) -> None:
    after = written(SCRIPT, path)
    assert not PLACED.search(after)
    assert '["kernel"][0]' in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        print(", '        params["w"] = [1]\n        print('),
        ("        print(", "        params.update(w=1)\n        print("),
        ("state, batch)\n", "state, batch)\n        if batch:\n            state = start\n"),
        ('kernel"][0]', 'kernel"][1]'),
    ],
)
def test_what_may_be_another_tree_stays(old: str, new: str) -> None:
    assert not PLACED.search(written(SCRIPT.replace(old, new)))
