"""`pip install shardlift` alone: the linter, the rewriter and the report, where there is no JAX."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

from shardlift.cli.demo import BEFORE, bundled
from shardlift.facts import Capture, write
from tests import children
from tests.packaging.building import build, copy_tree, install

pytest.importorskip("hatchling")

# All commands in one process: a new interpreter each would take most of the time.
COMMANDS = """
import contextlib, io, json, sys
from importlib.metadata import entry_points
(script,) = entry_points(group="console_scripts", name="shardlift")
main = script.load()
found = {}
for line in json.loads(sys.argv[1]):
    out, status = io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main(line.split(), prog_name="shardlift")
        except SystemExit as stop:
            status = stop.code or 0
    found[line] = status, out.getvalue()
try:
    import jax
except ImportError:
    print(json.dumps({"found": found, "numpy": "numpy" in sys.modules}))
"""
LINES = [
    "--version", "check before.py", "migrate before.py --write", "rule SL402", "status before.py",
    "report run.json --html run.html", "run plain.py",
]  # fmt: skip


def installed(folder: Path) -> Path:
    """The interpreter of a new environment."""
    _, wheel = build(copy_tree(folder / "tree"), folder / "out")
    return install(wheel, folder / "venv")


def answers(python: Path, work: Path) -> dict[str, tuple[int, str]]:
    """The exit status and the output of every command."""
    (work / "before.py").write_bytes(bundled()[BEFORE])
    (work / "plain.py").write_text("print('ran')\n")
    write(Capture(command=("train.py",)), work / "run.json")
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "JAX_PLATFORMS")}
    done = children.run(
        [python, "-c", COMMANDS, json.dumps(LINES)],
        cwd=work, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["numpy"] is False
    return answer["found"]


def its_types_are_seen_from_the_outside(python: Path, work: Path) -> None:
    """A user's file, checked strictly against what is installed; JAX's own types are not there.

    The mistakes in it are marked, and `--strict` complains of a mark where nothing is wrong.
    """
    if importlib.util.find_spec("mypy") is None:
        return
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python]
    options = ["--config-file", os.devnull, "--cache-dir", os.devnull]
    source = (Path(__file__).parent / "typed_use.py").read_text()
    (work / "mine.py").write_text(source)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")}
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if "site-packages" in p)
    done = children.run([*command, *options, "mine.py"], cwd=work, env=env)
    assert done.stdout.startswith("Success"), done.stdout + done.stderr


@pytest.mark.exhaustive  # `test_no_jax` of tests/cli has what needs JAX, and needs no installation
def test_what_works_where_there_is_no_jax(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    python = installed(tmp_path)
    its_types_are_seen_from_the_outside(python, work)
    said = answers(python, work)
    assert said["--version"][1].startswith("shardlift, version ")
    assert said["check before.py"][0] == 1
    assert "SL201" in said["check before.py"][1]
    assert said["migrate before.py --write"][0] == 0
    assert "\n11 places were rewritten in 1 file.\n" in said["migrate before.py --write"][1]
    assert "jax.shard_map" in (work / "before.py").read_text()
    assert "SL402" in said["rule SL402"][1]
    assert "2 of 2 sites migrated" in said["status before.py"][1]
    assert said["report run.json --html run.html"][0] == 0
    assert (work / "run.html").exists()
    assert said["run plain.py"][0] == 0
    assert not any("Traceback" in text for _, text in said.values())
