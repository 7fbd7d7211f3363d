"""Every command that has `--format json` prints one document of one schema, and nothing else."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import children

BROKEN = """\
import jax
import jax.numpy as jnp

step = jax.pmap(lambda x: jax.tree_map(jnp.sin, x))
if __name__ == "__main__":
    print(step(jnp.arange(float(jax.local_device_count()))))
"""
FAILING = "import jax\n\n\ndef f():\n    return jax.no_such_name\n\n\nprint('so far')\nf()\n"


def _document(folder: Path, *arguments: str) -> dict[str, Any]:
    (folder / "train.py").write_text(BROKEN)
    (folder / "failing.py").write_text(FAILING)
    command = [sys.executable, "-m", "shardlift", *arguments]
    done = children.run(command, cwd=folder)
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["status"] == done.returncode
    assert list(document)[:6] == ["schema", "command", "status", "done", "left", "next"]
    assert (document["schema"], document["command"]) == (1, arguments[0])
    assert all({"code", "message"} <= set(one) for one in document["done"] + document["left"])
    return document


CASES = {
    "check": (["train.py"], 1, [], ["SL201", "SL105"], "shardlift fix train.py"),
    "fix": (["train.py"], 1, ["name"], [], "shardlift fix train.py --write"),
    "migrate": (["train.py"], 1, ["site", "name"], [], "shardlift migrate train.py --write"),
    "run": (["failing.py"], 1, [], ["AttributeError"], "shardlift check ."),
}


@pytest.mark.parametrize("command", CASES)
def test_what_was_done_and_left(tmp_path: Path, command: str) -> None:
    arguments, status, done, left, following = CASES[command]
    document = _document(tmp_path, command, "--format", "json", *arguments)
    assert document["status"] == status
    assert [one["code"] for one in document["done"]] == done
    assert [one["code"] for one in document["left"]] == left
    assert document["next"][0] == following
    for one in document["done"] + document["left"]:
        assert one["path"] == arguments[0]
        assert one["line"] == (5 if command == "run" else 4)


def test_a_rewrite_has_its_diff(tmp_path: Path) -> None:
    (file,) = _document(tmp_path, "fix", "train.py", "--format", "json")["files"]
    assert "-step = jax.pmap(lambda x: jax.tree_map(jnp.sin, x))\n+step = " in file["diff"]


@pytest.mark.parametrize("command", ["check", "fix", "migrate", "verify"])
def test_a_command_that_cannot_do_it(tmp_path: Path, command: str) -> None:
    paths = ["nothing.py"] * (1 + (command == "verify"))
    document = _document(tmp_path, command, "--format", "json", *paths)
    (left,) = document["left"]
    assert (document["status"], left["code"]) == (2, "stopped")
    assert "nothing.py" in left["message"]


@pytest.mark.slow
def test_the_verdicts_and_the_restored_names(tmp_path: Path) -> None:
    document = _document(tmp_path, "run", "--format", "json", "--devices", "2", "train.py")
    assert {one["message"] for one in document["done"]} == {"jax.tree_map", "jax.pmap"}
    (tmp_path / "new.py").write_text(BROKEN.replace("tree_map", "tree.map").replace("sin", "cos"))
    document = _document(tmp_path, "verify", "--format", "json", "train.py", "new.py")
    (left,) = document["left"]
    assert (left["code"], left["path"], left["line"]) == ("different", "new.py", 4)
