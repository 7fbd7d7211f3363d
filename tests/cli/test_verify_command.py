"""The command, on programs in files of their own."""

import ast
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from shardlift.cli import main, verify
from shardlift.verify.compare.verdicts import ProgramVerdict, Side
from tests import children

STEP = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

steps = int(sys.argv[1]) if sys.argv[1:] else 3
n = jax.local_device_count()

def train_step(w, x):
    grads = jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
    grads = lax.pmean(grads, "batch")
    return w - 0.1 * grads, lax.pmean(jnp.mean(x @ w), "batch")
"""
BEFORE = f"""{STEP}
p_step = jax.pmap(train_step, axis_name="batch")
w = jax.device_put_replicated(jnp.arange(3.0), jax.devices())
for k in range(steps):
    x = np.random.normal(size=(n, 16 // n, 3)).astype(np.float32)  # no seed of its own
    w, loss = p_step(w, x)
print("loss", loss[0])
"""
AFTER = f"""{STEP}
mesh = Mesh(np.array(jax.devices()), ("batch",))
p_step = jax.jit(jax.shard_map(
    train_step, mesh=mesh, in_specs=(P(), P("batch")), out_specs=P(), check_vma=CHECK))
w = jnp.arange(3.0)
for k in range(steps):
    if k == CRASH:
        raise RuntimeError("out of luck")
    x = np.random.normal(size=(16, 3)).astype(np.float32)
    w, loss = p_step(w, x)
print("loss", loss)
"""
ENV = children.plain_environment()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made: Path = tmp_path_factory.mktemp("programs")
    texts = {
        "before.py": BEFORE,
        "good.py": AFTER.replace("CHECK", "False").replace("CRASH", "-1"),
        "bad.py": AFTER.replace("CHECK", "True").replace("CRASH", "-1"),
        "crash.py": AFTER.replace("CHECK", "False").replace("CRASH", "2"),
        "nothing.py": "print('no jax here')",
    }
    for name, text in texts.items():
        (made / name).write_text(text)
    return made


def shardlift(folder: Path, *args: str, python: str = sys.executable):
    command = [python, "-m", "shardlift.cli", *args]
    return children.run(command, cwd=folder, env=ENV)


@pytest.mark.slow
def test_identical_with_arguments_and_a_capture(folder):
    done = shardlift(folder, "verify", "before.py", "good.py", "--", "2")
    assert done.returncode == 0, done.stderr
    assert "identical  train_step  before.py:15 (pmap) -> good.py:16 (shard_map)" in done.stdout
    assert "4 outputs of 2 calls" in done.stdout
    assert done.stdout.rstrip().endswith("1 site: 1 identical")
    recording = ("--record", "run.json", "--record-inputs", "1000000")
    assert shardlift(folder, "run", "-q", "--devices", "8", *recording, "before.py").returncode == 0
    done = shardlift(folder, "verify", "-q", "run.json", "before.py", "--patch-after")
    assert done.stdout.startswith("1 site: 1 different"), done.stdout  # run sets no seeds


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_verdict_is_printed_in_its_format(style, capsys):
    verify._print(ProgramVerdict(Side("before.py"), Side("after.py"), ()), style, False)
    assert capsys.readouterr().out.startswith("{") is (style == "json")


@pytest.mark.slow
def test_different_as_json(folder):
    done = shardlift(folder, "verify", "before.py", "bad.py", "--format", "json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (told["status"], told["verdicts"]["different"]) == (1, 1)
    site = told["sites"][0]
    assert (site["name"], site["verdict"], site["itself"]) == ("train_step", "different", True)
    assert "8.000 times too large: check_vma with unvarying parameters" in site["causes"][0]
    assert {one["part"] for one in site["findings"]} == {"outputs", "inside"}


@pytest.mark.slow
def test_a_crash(folder):
    done = shardlift(folder, "verify", "before.py", "crash.py")
    assert done.returncode == 1
    assert re.search(r"after\s+crash.py\s+JAX .*\n\s+ended with status 1", done.stdout)
    assert "RuntimeError: out of luck" in done.stdout
    assert "3 calls before, 2 after" in done.stdout
    done = shardlift(folder, "verify", "nothing.py", "good.py")
    assert done.returncode == 2
    assert "nothing.py ended with status 0 without a recorded call of JAX" in done.stderr


RECORDER = Path(__file__).parents[2] / "examples" / "record_legacy.py"
PYTHONS = [sys.executable, os.environ.get("SHARDLIFT_LEGACY_PYTHON", "")]


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("python", PYTHONS, ids=["this", "old"])
def test_a_recording_of_another_environment(folder, python, tmp_path):
    """On this JAX, and where SHARDLIFT_LEGACY_PYTHON names a python with JAX 0.4 to 0.7, there."""
    if not python:
        pytest.skip("SHARDLIFT_LEGACY_PYTHON is not set")
    program = tmp_path / "before.py"
    program.write_text(BEFORE.replace("jax.device_put_replicated(jnp.arange(3.0), jax.devices())",
                                      "jnp.stack([jnp.arange(3.0)] * 8)"))  # fmt: skip
    out = str(tmp_path / "old.json")
    env = {k: v for k, v in ENV.items() if k not in ("PYTHONPATH", "XLA_FLAGS")}  # old flags
    command = [python, str(RECORDER), "--devices", "8", out, str(program), "2"]
    done = children.run(command, env=env)
    assert done.returncode == 0, done.stderr
    assert "2 calls of 1 pmap sites written to" in done.stderr
    options = ["--collectives", "0", "--tolerance", "ulps=8,rtol=1e-6"]  # it records outputs only
    done = shardlift(folder, "verify", out, "good.py", *options, "--", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 outputs of 2 calls" in done.stdout
    done = shardlift(folder, "verify", out, "bad.py", "--tolerance", "ulps=8,rtol=1e-6", "--", "2")
    assert done.returncode == 1
    assert "1 site: 1 different" in done.stdout


def test_the_file_for_old_environments_is_old_python():
    text = RECORDER.read_text()
    ast.parse(text, feature_version=(3, 8))
    imported = set(re.findall(r"^ *(?:import|from) (\w+)", text, re.MULTILINE))
    assert "jax" in imported
    assert imported <= {*sys.stdlib_module_names, "jax", "jaxlib", "numpy"}


def test_mistakes():
    runner = CliRunner()
    for bad in ("ulps", "ulps=-1", "rtol=x", "speed=3"):
        done = runner.invoke(main, ["verify", "a.py", "b.py", "--tolerance", bad])
        assert done.exit_code == 2
        assert "is not rounding=N, ulps=N, rtol=X or atol=X" in done.output
    done = runner.invoke(main, ["verify", "nowhere.py", "b.py"])
    assert done.exit_code == 2
    assert "no such file: nowhere.py" in done.output
    for args in (["--record-inputs", "5"], ["--record", "x.json", "--record-inputs", "-1"]):
        assert runner.invoke(main, ["run", *args, __file__]).exit_code == 2


def test_sigterm_leaves_nothing_behind(tmp_path):
    (tmp_path / "waits.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(900)\n")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "shardlift.cli", "verify", "waits.py", "waits.py"]
    with children.Child(command, cwd=tmp_path, env=ENV | {"TMPDIR": str(temporary)}) as child:
        while not [*temporary.glob("shardlift-*")]:
            assert child.poll() is None, child.stderr_text
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        child.finish()
    assert child.returncode == 128 + signal.SIGTERM
    assert os.listdir(temporary) == []
