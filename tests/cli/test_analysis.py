"""`migrate --analyse`: facts from shapes, in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from shardlift.cli.migrate import migrate_command
from shardlift.rewrite.goal import Goal
from shardlift.source.settings import Settings
from tests import children
from tests.rewrite.test_programs import PLACED, migrated

STEP = """\
import jax
import jax.numpy as jnp


def step(params, x):
    grads = jax.grad(lambda params: jnp.mean((x @ params) ** 2))(params)
    return params - 0.1 * jax.lax.pmean(grads, "batch"), x.sum()


p_step = jax.pmap(step, axis_name="batch")


def shapes(*sizes):
    return [jax.ShapeDtypeStruct((jax.local_device_count(), *size), "float32") for size in sizes]


def example():
    return p_step, shapes((3,), (2, 3))


def other():
    return step, shapes((3,), (2, 3))


def wrong():
    return [(p_step, shapes((3,), (2, 4)))]


def shard(x):
    return x.reshape((jax.local_device_count(), -1) + x.shape[1:])


if __name__ == "__main__":
    params = jax.device_put_replicated(jnp.ones(3), jax.local_devices())
    for number in range(3):
        params, sums = p_step(params, shard(number + jnp.arange(48.0).reshape(16, 3) / 48))
    print([float(x) for x in jax.tree.map(lambda x: x[0], params)], [float(x) for x in sums])
"""


def test_the_example_is_no_part_of_the_program() -> None:
    text = STEP.replace(", x.sum()", "").replace("params, sums =", "params =")
    text = text.replace("return params - 0.1 * ", "return ").replace(
        ", [float(x) for x in sums]", ""
    )
    reduced = {"pkg/train.py": text}
    named = Settings(examples=frozenset({"pkg.train:example", "train:other", "train:wrong"}))
    assert not PLACED.search(migrated(reduced, goal=Goal.GLOBAL)[0]["pkg/train.py"])
    after = migrated(reduced, goal=Goal.GLOBAL, settings=named)[0]["pkg/train.py"]
    assert PLACED.search(after)


@pytest.mark.parametrize("target", ["train", ":example", "train:", "train.py:x y"])
def test_a_name_that_is_none(target: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(STEP)
    asked = [str(path), "--to", "global", "--analyse", target]
    done = CliRunner().invoke(migrate_command, asked)
    assert done.exit_code == 2
    assert "it is MODULE:FUNCTION" in done.output


def _shardlift(folder: Path, *arguments: str) -> tuple[int, str]:
    environment = children.plain_environment(JAX_NUM_CPU_DEVICES="4", JAX_PLATFORMS="cpu")
    command = [sys.executable, "-m", "shardlift", *arguments]
    done = children.run(command, cwd=folder, env=environment, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.exhaustive
def test_an_analysed_step_computes_the_same(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    path = tmp_path / "train.py"
    path.write_text(STEP.replace("def other", "def other_"))
    _, before = _shardlift(tmp_path, "run", "--quiet", "train.py")
    asked = ["migrate", "train.py", "--to", "global", "--analyse", "train:example"]
    _, said = _shardlift(tmp_path, *asked, "--analyse", "train:wrong")
    assert "--analyse train:wrong failed" in said
    assert "dot_general" in said
    _, said = _shardlift(tmp_path, *asked, "--analyse", "train:other_")
    assert "train:other_ returns step, which is not pmapped" in said
    text = path.read_text()
    text = text[: text.index("def other_")] + text[text.index("def shard") :]
    path.write_text(text)
    _shardlift(tmp_path, *asked, "--write")
    assert PLACED.search(path.read_text())
    assert "in_specs=(jax.P(), jax.P(" in path.read_text()
    _, after = _shardlift(tmp_path, "run", "--no-patch", "--quiet", "train.py")
    numbers = [[float(x) for x in text.translate(BRACKETS).split()] for text in (before, after)]
    assert numbers[1] == pytest.approx(numbers[0], rel=1e-5)


BRACKETS = str.maketrans("[],", "   ")
