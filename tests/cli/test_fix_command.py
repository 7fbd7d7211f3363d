"""`shardlift fix`: what is removed, wrong or slow is repaired, and pmap stays."""

import json
import sys
from pathlib import Path

import pytest

from tests import children
from tests.cli.commands import check, fix

pytestmark = pytest.mark.usefixtures("many_sites")

TRAIN = """\
import jax


def train(x):
    return jax.lax.psum(x, "i")


step = jax.pmap(train, axis_name="i")
x = jax.tree_map(jax.numpy.abs, jax.device_put_replicated(1.0, jax.local_devices()))
print(float(step(x)[0]))
"""
NESTED = "import jax\n\nf = jax.pmap(jax.pmap(g, axis_name='j'), axis_name='i')\nh = jax.pmap(g)\n"
FILES = {"train.py": TRAIN}


def test_pmap_stays_and_the_rest_is_repaired(project: Path) -> None:
    result = fix("--write")
    assert result.exit_code == 0, result.output
    after = (project / "train.py").read_text()
    assert 'step = jax.pmap(train, axis_name="i")\n' in after
    assert "x = jax.tree.map(jax.numpy.abs, device_put_replicated(" in after
    assert "print(float(jax.device_get(step(x))[0]))" in after
    assert "spmd_map" not in after
    said = "Every public import and name of JAX at module level exists on JAX 0.12."
    assert result.stdout.startswith(said)
    assert "Written for" not in result.output  # no site is
    assert fix().exit_code == 0  # a second run has nothing to do
    (project / "train.py").write_text('import os\nos.environ["JAX_PMAP_SHMAP_MERGE"] = "1"\n')
    assert fix("--write").exit_code == 0  # a file that names jax in capitals only
    assert "SHMAP" not in (project / "train.py").read_text()
    (project / "train.py").write_text("import jax\nx = jax.tree_map(abs, y)\n")
    (project / "newer.py").write_text("import jax\nx = jax.tree_map(\n")
    assert f"{said[:-1]}, in the files that could be read." in fix().output


@pytest.mark.slow
def test_what_is_written_runs(project: Path) -> None:
    fix("--write")
    env = children.plain_environment(XLA_FLAGS="--xla_force_host_platform_device_count=4")
    done = children.run([sys.executable, "train.py"], env=env, check=True)
    assert float(done.stdout) == 4.0


@pytest.mark.parametrize(
    "text",
    [
        "import jax\nstep = jax.pmap(f)\n",
        "import jax\ntrain(transform=jax.pmap)\n",
        "import equinox as eqx\nstep = eqx.filter_pmap(f)\n",
        "import jax\nok = transform is jax.pmap\n",
    ],
)
def test_a_plain_site_is_neither_changed_nor_listed(project: Path, text: str) -> None:
    (project / "train.py").write_text(text)
    result = fix()
    assert result.exit_code == 0
    assert result.output == "Nothing to rewrite in 1 file.\n"


def test_pmaps_inside_one_another_are_one_shard_map(project: Path) -> None:
    (project / "train.py").write_text(NESTED)
    assert fix("--target-jax", "0.7").exit_code == 0  # it still nests them
    assert fix("--write").exit_code == 0
    after = (project / "train.py").read_text()
    assert "f = jax.jit(" in after
    assert after.count("jax.pmap(") == 1
    assert after.endswith("h = jax.pmap(g)\n")
    text = "import jax\nf = jax.pmap(g)\n@jax.pmap\ndef h(x):\n    return f(x)\n"
    (project / "train.py").write_text(text)
    result = fix()
    assert result.exit_code == 1
    assert "a pmapped function is called inside a pmapped one" in result.output


STOPS = """\
import jax
from jax.experimental import host_callback


def later(x):
    return jax.xla_computation(x)


def main(x):
    host_callback.barrier_wait(jax.tree_map(abs, x))
"""


def test_a_result_that_does_not_run_is_called_that_first(project: Path) -> None:
    (project / "a.py").write_text(STOPS)
    (project / "b.py").write_text(STOPS)
    result = fix("--write", "--pr", "pr.md")
    first, name = result.stdout.splitlines()[:2]
    assert first == "Does not run yet on JAX 0.12:"
    assert name.startswith("- 2 files need jax.experimental.host_callback: use jax.debug.print")
    assert name.endswith("(a.py, b.py)")
    assert "xla_computation" not in "".join(result.stdout.splitlines()[:2])  # only when called
    text = (project / "pr.md").read_text()
    assert text.index("## Does it run?") < text.index("Does not run yet") < text.index("## What")
    document = json.loads(fix("--format", "json").output)
    assert [one["name"] for one in document["does_not_run"]] == ["jax.experimental.host_callback"]


@pytest.mark.parametrize(
    ("name", "kind"), [("old.py", "script"), ("pkg/test_old.py", "test"), ("pkg/old.py", "")]
)
def test_the_first_line_tells_scripts_from_modules(project: Path, name: str, kind: str) -> None:
    (project / "pkg").mkdir()
    (project / "pkg/__init__.py").write_text("import jax\ny = jax.tree_map(abs, 1)\n")
    (project / name).write_text("import jax\ny = jax.lax.tie_in(1, 2)\n")
    result = fix("pkg", name)
    first = f"Modules can be imported on JAX 0.12, but 1 {kind} cannot run yet:"
    assert result.stderr.startswith(first if kind else "Does not run yet on JAX 0.12:")
    assert ("+y = jax.tree.map(abs, 1)" in result.stdout) is bool(kind)
    if kind == "script":
        (project / name).write_text("import pkg\nfrom flax import optim\nx = optim, pkg\n")
        (project / "pkg/__init__.py").rename(project / "pkg.py")
        assert fix("pkg.py", name).stderr.startswith("Does not run yet")  # it is all that runs


@pytest.mark.parametrize(
    ("name", "more", "map_"),
    [
        ("train.py", "print(optim.Momentum)", "tree_util.tree_map"),
        ("train.ipynb", "print(optim.Momentum)", "tree.map"),
        ("train.py", "print(optim.Momentum, jax.device_put_sharded(y, d))", "tree_util.tree_map"),
    ],
)
def test_what_runs_with_an_old_jax_alone_still_does(
    project: Path, name: str, more: str, map_: str
) -> None:
    """Not for the sake of a notebook. What would need a newer JAX is left."""
    text = f"import jax\nfrom flax import optim\n{more}\n"
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": text}]
    document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (project / "train.py").unlink()
    (project / name).write_text(json.dumps(document) if name.endswith("nb") else text)
    (project / "map.py").write_text("import jax\ny = jax.tree_map(abs, 1)\n")
    result = fix()
    assert "Does not run yet on JAX 0.12" in result.stderr
    assert f"+y = jax.{map_}(abs, 1)" in result.stdout
    assert ("The new text needs JAX" in result.stderr) is (map_ == "tree.map")
    assert ("runs with the JAX that the program has" in result.stderr) is (map_ != "tree.map")
    why = "it needs JAX 0.4.13, where this file does not run: it needs flax.optim"
    assert (why in result.stderr) is ("sharded" in more)
    marks = [line for line in check(name).stdout.splitlines() if "device_put_sharded" in line]
    assert ["[fix]" in line for line in marks] == [False] * more.count("sharded")
    (project / "requirements.txt").write_text("jax==0.4.30\n")  # it runs with that one
    assert "+y = jax.tree.map(abs, 1)" in fix().stdout


def test_names_are_for_the_jax_that_is_pinned_where_a_helper_is_written(project: Path) -> None:
    (project / "requirements.txt").write_text("jax==0.4.20\n")
    text = "import jax\nx = jax.device_put_sharded(y, d)\nz = jax.tree_map(abs, x)\n"
    (project / "train.py").write_text(text)
    result = fix()
    assert "+z = jax.tree_util.tree_map(abs, x)" in result.stdout
    assert "jax.tree.map" not in result.stdout
    assert "The new text needs" not in result.stderr
    (project / "train.py").write_text(f"{text}from jax.core import JaxprEqn\n")
    assert "+z = jax.tree_util.tree_map(abs, x)" in fix().stdout  # though that needs a newer one


def test_what_no_jax_would_run_with_what_is_left_waits(project: Path) -> None:
    text = (
        "from jax import core, util\ndef f(x):\n    return util.safe_map(g, x), core.Literal, {}\n"
    )
    (project / "train.py").write_text(text.format("core.unitvar"))
    result = fix()
    assert "JAX 0.4.27, where this file does not run: it needs jax.core.unitvar" in result.stderr
    assert "-from jax import core, util\n+from jax import core\n" in result.stdout
    assert "left to you" not in result.stderr  # of util all is copied
    (project / "train.py").write_text(text.format("1"))
    assert "+from jax.extend import core\n" in fix().stdout


@pytest.mark.parametrize(
    ("name", "line", "map_"),
    [
        ("README.md", "pip install 'jax[cuda11_cudnn86]==0.4.4'", "tree_util.tree_map"),
        ("README.md", "pip install 'jax>=0.4.4'", "tree.map"),  # installs the newest
        ("requirements.txt", "flax==0.6.4", "tree_util.tree_map"),
    ],
)
def test_the_jax_that_a_page_or_a_flax_is_for_still_runs_it(
    project: Path, name: str, line: str, map_: str
) -> None:
    (project / name).write_text(f"{line}\n")
    (project / "train.py").write_text("import jax\ny = jax.tree_map(abs, 1)\n")
    result = fix()
    assert f"+y = jax.{map_}(abs, 1)" in result.stdout
    assert ("needs JAX" in result.stderr) is (map_ == "tree.map")


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("from jax import core\ndef f(x: core.Shape):\n    return x\n", False),
        ("from jax import core\ndef f(x=core.Shape):\n    return x\n", False),
        ("from jax import core, remat\nf = remat(abs,  # c\n  concrete=True)\n", False),
        ("from jax import core\ndef f(x):\n    return core.Shape\n", True),
        ("from jax import core\ndef f(x: 'core.Shape'):\n    return x\n", True),
        (
            "from __future__ import annotations\nfrom jax import core\n"
            "def f(x: core.Shape) -> core.Shape:\n    return x\n",
            True,
        ),
    ],
)
def test_what_an_import_executes(project: Path, text: str, runs: bool) -> None:
    (project / "train.py").write_text(f"{text}import jax\ny = jax.tree_map(abs, 1)\n")
    said = fix().stderr
    assert ("Does not run yet" not in said) is runs
    assert ("exists on JAX 0.12, but functions use jax.core.Shape." in said) is runs


def test_what_is_broken_or_slow_and_not_repaired_is_said(project: Path) -> None:
    text = "import jax\nn = jax.process_count()\nlow = jax.pmap(abs).lower(1)\ny = jax.host_id()\n"
    text += "z = jax.tree.map(lambda v: v[0], jax.pmap(abs)(n))\n"
    (project / "train.py").write_text(text)
    result = fix("train.py", "--write", "--allow-dirty", "--pr", "pr.md")
    said = "Broken, and left to you: 1 place.\n{}: SL603 in many processes a lowered pmap takes"
    assert said.format("- train.py:3:7") in result.stdout
    slow = result.stdout.partition("Slow, and left to you: 1 place.\n- train.py:5:5: SL402 ")[2]
    assert "sliced. Read x.addressable_shards[0].data.squeeze(0) of each leaf, or" in slow
    assert said.format("  - `train.py:3:7`") in (project / "pr.md").read_text()


def test_a_project_with_many_places_left_has_a_line_per_reason(project: Path) -> None:
    for number in range(3):
        (project / f"m{number}.py").write_text("from flax import optim\nprint(optim.Momentum)\n")
    said = "m0.py:1:18: left as it is: flax.optim was removed in flax 0.6: see optax: "
    assert said in fix().stderr
    assert "(and 2 other places: m1.py:1:18, m2.py:1:18)" in fix().stderr


def test_the_name_that_needs_a_newer_jax_is_said(project: Path) -> None:
    (project / "train.py").write_text(
        "from jax.core import take_current_trace as now\nprint(now())\n"
    )
    said = "JAX 0.10 or newer, for {0}jax.extend.core.take_current_trace{0} in {0}train.py:1{0}."
    result = fix("train.py", "--write", "--allow-dirty", "--pr", "pr.md")
    assert said.format("") in result.stdout
    assert said.format("`") in (project / "pr.md").read_text()
