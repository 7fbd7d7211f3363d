"""`--to global` of notebooks: cells that run from the top, and magics that hide what they use."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from shardlift.capture.text_digest import digest
from shardlift.rewrite.goal import Goal
from shardlift.source.text import read_source
from tests import children
from tests.rewrite.jit_programs import recorded
from tests.rewrite.test_programs import PLACED, migrated

EXAMPLE = Path(__file__).parents[3] / "examples" / "notebook" / "before.ipynb"
CELLS = [
    "import jax\nimport jax.numpy as jnp\nimport numpy as np\n",
    "# one copy per device\ndef replicate(tree):\n"
    "    return jax.device_put_replicated(tree, jax.local_devices())\n",
    "\ndef shard(x):\n    return x.reshape((jax.local_device_count(), -1) + x.shape[1:])\n",
    "def step(params, x, key):\n"
    "    x = x + jax.random.normal(key, x.shape)\n"
    "    grad = jax.grad(lambda p: jnp.mean((x @ p) ** 2))(params)\n"
    '    return params - 0.1 * jax.lax.pmean(grad, "batch"), jax.lax.pmean(x.mean(), "batch")\n',
    'p_step = jax.pmap(step, axis_name="batch", donate_argnums=(0,))\n',
    "params = replicate(jnp.ones((3, 1)))\nrng = np.random.RandomState(0)\n",
    "%%time\nfor number in range(3):\n"
    "    keys = jax.random.split(jax.random.key(number), jax.local_device_count())\n"
    "    params, mean = p_step(params, shard(rng.normal(size=(16, 3)).astype('f')), keys)\n"
    "    print(float(mean[0]))\n",
    "jax.block_until_ready(params)\nfinal = jax.tree.map(lambda x: x[0], params)\nprint(final)\n",
]


def notebook(cells: list[str]) -> str:
    code = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    book = [{**code, "source": cell.splitlines(keepends=True)} for cell in cells]
    document = {"cells": book, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(document, indent=1) + "\n"


def cells_after(*more: str) -> list[str]:
    text = notebook([*REDUCED, *more])
    after = migrated({"n.ipynb": text}, goal=Goal.GLOBAL)[0]["n.ipynb"]
    return ["".join(cell["source"]) for cell in json.loads(after)["cells"]]


# What the text alone proves.
REDUCED = [
    *CELLS[:3],
    'p_mean = jax.pmap(lambda x: jax.lax.pmean(x, "i"), axis_name="i")\n',
    "means = p_mean(replicate(jnp.ones(2)))\n",
    "print(jax.tree.map(lambda x: x[0], means))\n",
]


def test_cells_become_plain_and_dead_functions_are_removed() -> None:
    first, *after = cells_after()
    assert first == REDUCED[0]
    assert after[0] == ""
    assert after.pop(2) == "from jax.sharding import AxisType"
    assert after[2].startswith("mesh = jax.make_mesh(")
    assert "in_specs=(jax.P(),)" in after[2]
    assert PLACED.search(after[3])
    assert after[4] == "print(means)\n"
    assert len(after) == len(REDUCED) - 1


@pytest.mark.parametrize(
    "cell",
    [
        "means",  # shown
        "%memit means.sum()",
        "!echo {means}",
        "%%timeit\ny = means",
        "%%bash\necho $means",
        "means ((",
        "x = 1\n\nmeans",
    ],
)
def test_what_a_cell_shows_or_hides_stays(cell: str) -> None:
    assert "print(jax.tree.map(lambda x: x[0], means))\n" in cells_after(cell)


@pytest.mark.parametrize(
    "cell", ["%time print(1)", "%%time\nx = 1", "jax.block_until_ready(means)\nx = 1", "!ls"]
)
def test_other_cells_hide_nothing(cell: str) -> None:
    assert "print(means)\n" in cells_after(cell)


def test_a_step_becomes_jit_of_the_whole_batch() -> None:
    text = notebook(CELLS).replace("jax.random.normal(key, x.shape)", "1")
    text = text.replace("x, key)", "x)").replace(", keys)", ")")
    source = read_source("n.ipynb", text.encode()).text
    facts = replace(recorded(source, file="n.ipynb"), sources={"n.ipynb": digest(source)})
    after = migrated({"n.ipynb": text}, goal=Goal.JIT, facts=facts)[0]["n.ipynb"]
    assert "out_shardings" in after
    assert "pmean" not in after


def test_a_name_in_a_magic_is_not_dead() -> None:
    after = cells_after("%memit replicate(1)")
    assert "def replicate" in "".join(after)


def _run(folder: Path, *arguments: str) -> str:
    environment = children.plain_environment(JAX_NUM_CPU_DEVICES="4", JAX_PLATFORMS="cpu")
    command = [sys.executable, "-m", "shardlift", *arguments]
    done = children.run(command, cwd=folder, env=environment, timeout=120)
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: something is left as it is
    return done.stdout


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", text)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["train", "example"])
def test_a_recorded_notebook_computes_the_same(name: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    path = tmp_path / "n.ipynb"
    if name == "train":
        path.write_text(notebook(CELLS))
    else:
        shutil.copy(EXAMPLE, path)
        os.chmod(path, 0o644)
    today = ("--written-for", "0.12")  # the random numbers of the migrated notebook
    before = _run(tmp_path, "run", *today, "--record", "run.json", "n.ipynb")
    _run(tmp_path, "migrate", "n.ipynb", "--to", "global", "--facts", "run.json", "--write")
    text = path.read_text()
    assert "spmd_map" not in text
    assert "jax.shard_map" in text
    if name == "train":
        assert PLACED.search("".join(json.loads(text)["cells"][5]["source"]))
    after = _run(tmp_path, "run", "--no-patch", "n.ipynb")
    assert numbers(after) == pytest.approx(numbers(before), rel=1e-5)
    assert numbers(before)
