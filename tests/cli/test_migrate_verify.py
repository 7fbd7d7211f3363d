"""`migrate --write --verify`: rewrites that are wrong, planted, are backed out and named."""

import dataclasses
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shardlift.cli import main
from shardlift.rewrite import output_reads, passes, sites
from shardlift.source.model import Edit
from tests import children
from tests.cli.interrupting import tree

pytestmark = pytest.mark.usefixtures("many_sites")

LIBRARY = """\
import jax
import jax.numpy as jnp
from jax import lax


def doubled(f):
    return lambda *args: jax.tree.map(lambda x: 2 * x, f(*args))


def train_step(w, x):
    grads = lax.pmean(jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), "batch")
    return w - 0.1 * grads


def bad_loss(w, x):
    return jnp.mean(x @ w, axis=0)


p_step = jax.pmap(train_step, axis_name="batch")
p_loss = jax.pmap(bad_loss)
p_after = jax.pmap(lambda x: x + 1)


def never(x):
    return jax.pmap(lambda x: x)(x)
"""
PROGRAM = """\
import time
import jax, jax.numpy as jnp, numpy as np
from lib import p_after, p_loss, p_step

n = jax.local_device_count()
w = jax.device_put_replicated(jnp.arange(3.0), jax.devices())
for _ in range(2):
    x = np.random.normal(size=(n, 4, 3)).astype(np.float32)
    w = p_step(w, x)
    loss = p_after(p_loss(w, x))
print("loss", loss[0])
"""
ENV = children.plain_environment()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lib.py").write_text(LIBRARY)
    (tmp_path / "train.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(ENV):
        monkeypatch.delenv(name)
    return tmp_path


def _run(*arguments: str) -> Result:
    devices = ["--devices", "2"] if "--verify" in arguments else []
    command = ["migrate", "--write", "--allow-dirty", ".", *devices, *arguments]
    return CliRunner().invoke(main, command, catch_exceptions=False)


def planted(edits: tuple[Edit, ...], wrapper: str) -> tuple[Edit, ...]:
    first, *rest = edits
    if rest:
        texts = [f"{first.replacement}{wrapper}(", *(f"){edit.replacement}" for edit in rest)]
    else:  # the name of a mapping function
        texts = [f"(lambda f, **options: {first.replacement}({wrapper}(f), **options))"]
    pairs = zip(edits, texts, strict=True)
    return tuple(dataclasses.replace(edit, replacement=text) for edit, text in pairs)


def _plant(monkeypatch: pytest.MonkeyPatch, module: object, word: str, wrapper: str) -> None:
    """What is rewritten around `word` is wrapped in a call besides."""
    real = module.rewrite  # type: ignore[attr-defined]

    def rewrite(file, goal):
        for result in real(file, goal):
            if result.edits and word in file.text(result.node):
                result = dataclasses.replace(result, edits=planted(result.edits, wrapper))
            yield result

    steps = tuple(rewrite if step is real else step for step in passes.STEPS)
    monkeypatch.setattr(passes, "STEPS", steps)


@pytest.mark.slow
def test_a_site_that_differs_is_backed_out(project, monkeypatch):
    _plant(monkeypatch, sites, "bad_loss", "doubled")
    result = _run("--verify", "python train.py")
    assert result.exit_code == 1, result.output
    line = "lib.py:20:10: left as it is: numbers differ: "
    assert (
        f"{line}1 of 1 differing leaf: 2.000 times too large, the number of devices"
        in result.stdout
    )
    assert "lib.py:25:12: not reached: the command does not reach it" in result.stdout
    assert "`python train.py`: 2 verified, 1 not reached, 1 backed out, after 2 runs." in (
        result.stdout
    )
    text = (project / "lib.py").read_text()
    assert "p_loss = jax.pmap(bad_loss)\n" in text
    assert 'p_step = spmd_map(train_step, axis_name="batch")\n' in text
    assert {path.name for path in project.iterdir()} - {"_spmd.py"} == {"lib.py", "train.py"}


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_a_run(project):
    """The program after does not end by itself: it waits as soon as it sees the new text."""
    waiting = "while 'spmd_map(' in open('lib.py').read(): time.sleep(9)"
    (project / "train.py").write_text(PROGRAM.replace("n = jax", f"{waiting}\nn = jax"))
    before = tree(project)
    command = [sys.executable, "-m", "shardlift.cli", "migrate", "--write", "."]
    with children.Child(
        [*command, "--verify", "python train.py", "--allow-dirty"], env=ENV
    ) as child:
        while b"spmd_map(" not in (project / "lib.py").read_bytes():
            assert child.poll() is None, child.stderr_text
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        child.finish()
    assert child.returncode != 0
    assert tree(project) == before


STEP = """\
import jax, jax.numpy as jnp, numpy as np
from jax import lax


def step(params, x):
    print("traced")
    grads = jax.grad(lambda params: jnp.mean((x @ params) ** 2))(params)
    return params - 0.1 * lax.pmean(grads, "batch")


p_step = jax.pmap(step, axis_name="batch")
n = jax.local_device_count()
params = jax.device_put_replicated(jnp.ones(3), jax.local_devices())
for seed in range(2):
    x = np.random.default_rng(seed).normal(size=(16, 3)).astype(np.float32)
    params = p_step(params, x.reshape((n, -1) + x.shape[1:]))
    print(jax.tree.map(lambda x: x[0], params))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "written"), [("global", "jax.jit(\n    jax.shard_map("), ("jit", "p_step = jax.jit(")]
)
def test_the_run_before_gives_the_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goal: str, written: str
) -> None:
    """And what is printed while tracing is no output: the trial of the recorder traces too."""
    (tmp_path / "train.py").write_text(STEP)
    monkeypatch.chdir(tmp_path)
    result = _run("--to", goal, "--verify", "python train.py", "--format", "json")
    assert result.exit_code == 0, result.output
    assert "run 1 of at most " in result.stderr
    told = json.loads(result.stdout)["verify"]
    assert (told["runs"], [one["verdict"] for one in told["places"]]) == (1, ["verified"])
    text = (tmp_path / "train.py").read_text()
    assert written in text
    assert ("axis_size=1" in text) is (goal == "jit")
    assert "p_step(params, x)" in " ".join(text.split())
    assert sorted(os.listdir(tmp_path)) == ["train.py"]


@pytest.mark.slow
def test_fix_compares_the_functions_whose_surroundings_it_changes(project):
    command = ["fix", "--write", "--allow-dirty", ".", "--devices", "2"]
    result = CliRunner().invoke(main, [*command, "--verify", "python train.py"])
    assert "`python train.py`: 3 mapped functions identical, after 1 run." in result.stdout
    assert "device_put_replicated" not in (project / "train.py").read_text().partition("print")[2]
    assert "jax.pmap(" in (project / "lib.py").read_text()


@pytest.mark.slow
def test_a_notebook_is_run_before_and_after(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = ["import jax\nimport numpy as np\nn = jax.local_device_count()"]
    cells += ["step = jax.pmap(lambda x: x + 1)", "print(step(np.ones((n, 3))).shape)"]
    document = {"cells": [{"cell_type": "code", "source": text} for text in cells]}
    (tmp_path / "a.ipynb").write_text(json.dumps(document))
    result = _run("--verify", "python a.ipynb")
    assert "`python a.ipynb`: 1 verified, after 1 run." in result.stdout, result.output


VALUES = """\
import jax
import numpy as np


def build(transform):
    return transform(lambda x: x + 1)


p_step = build(jax.pmap)


@jax.pmap
def never(x):
    return x


@jax.pmap
def nor_this(x):
    return x


print(p_step(np.ones((jax.local_device_count(), 3)))[0])
"""


@pytest.mark.slow
def test_a_function_that_no_run_called_is_not_verified(tmp_path, monkeypatch):
    """Another pmap is handed on as a value and called: a bare decorator is not that one."""
    (tmp_path / "train.py").write_text(VALUES)
    monkeypatch.chdir(tmp_path)
    result = _run("--verify", "python train.py", "--format", "json")
    assert result.exit_code == 2
    (stopped,) = json.loads(result.stdout)["left"]
    assert "calls none of the 2 sites that would be rewritten" in stopped["message"]
    assert (tmp_path / "train.py").read_text() == VALUES


WRITES = """\
import pathlib, sys, time
import jax, numpy as np


def last(x):
    return jax.tree.map(lambda a: a + 1, x)


f = jax.pmap(lambda x: x / 2)
g = jax.pmap(lambda x: x * (time.time_ns() % 9973))
shown = jax.device_get(f(np.arange(2.0))[0])
g(np.arange(2.0))
try:
    jax.pmap(lambda x: x[9, 9, 9])(np.arange(2.0))
except IndexError:
    print("caught")
WHERE
print("took", time.perf_counter())
"""


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("print('x', shown)", "stdout, line 2: 'x 0.0' before, 'x 1.0' after"),
        ("sys.exit(int(shown) + 3)", "the program fails with it"),
    ],
)
def test_what_is_printed_is_compared(
    project: Path, monkeypatch: pytest.MonkeyPatch, where: str, told: str
) -> None:
    """A wrong rewrite outside the mapped functions; a function that differs excuses nothing."""
    for path in project.iterdir():
        path.unlink()
    text = WRITES.replace("WHERE", where)
    (project / "t.py").write_text(text)
    _plant(monkeypatch, output_reads, "f(", "last")
    result = _run("--verify", "python t.py")
    assert "t.py:11:24: left as it is: " in result.stdout, result.output
    assert told in result.stdout
    assert "shown = jax.device_get(f(np.arange(2.0))[0])\n" in (project / "t.py").read_text()
    assert "last(" not in (project / "t.py").read_text().partition("f = ")[2]


JOB = """\
import jax, numpy as np

jax.distributed.initialize()
p_loss = jax.pmap(lambda x: jax.lax.pmean(x, "batch"), axis_name="batch")
print("loss", p_loss(np.arange(2.0) + jax.process_index())[0])
"""


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_job_of_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").write_text(JOB)
    result = _run("--verify", "python t.py", "--processes", "2", "--to", "shim")
    assert "`python t.py`: 1 verified, after 1 run." in result.stdout, result.output
    assert "p_loss = shardlift.pmap(" in (tmp_path / "t.py").read_text()
