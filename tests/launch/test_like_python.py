"""A program sees of its process what it sees under plain python."""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from shardlift.launch.program import Program
from shardlift.launch.session import RunOptions, to_json
from shardlift.recording.tape.options import TapeOptions
from tests import children

PROBE = Path(__file__).with_name("probe.py")
RUN = ("-m", "shardlift.cli", "run", "-q")

# What is different, and has to be.
EXPECTED = {
    "interpreter: meta path"  # where the imports of jax and of its modules are noticed
}
# The random numbers of the JAX that a program was written for.
OLD = {"jax: values: jax_threefry_partitionable"}
RECORDED = {"process: threads"}  # one writes the record from time to time
# By which programs that it starts are seen to use JAX; it is set when JAX has been imported.
TAPED = {"process: environment: JAX_DUMP_IR_TO"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The probe as a script, as a module, as a folder and as a zip file."""
    for path in ("probe.py", "pkg/probe.py", "folder/__main__.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(PROBE, tmp_path / path)
    (tmp_path / "pkg/__init__.py").touch()
    shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path / "folder")
    return tmp_path


def see(folder: Path, *command: str, **environ: str) -> Any:
    """What the probe prints."""
    end = folder / "end.txt"
    end.unlink(missing_ok=True)
    env = children.plain_environment(PROBE_END=str(end), **environ)
    done = children.run([sys.executable, *command], cwd=folder, env=env, check=True)
    return json.loads(done.stdout) | {"end": end.read_text()}


def differences(one: Any, two: Any, path: str = "") -> Iterator[str]:
    """Where two trees differ."""
    if isinstance(one, dict) and isinstance(two, dict):
        for name in sorted(one.keys() | two.keys()):
            below = f"{path}: {name}" if path else name
            yield from differences(one.get(name, "missing"), two.get(name, "missing"), below)
    elif one != two:
        yield path


def assert_like_python(
    folder: Path, program: Sequence[str], ours: Sequence[str], expected: set[str], **environ: str
) -> None:
    """The same but for what is expected to differ."""
    python, run = see(folder, *program, **environ), see(folder, *ours, **environ)
    if python["jax"]:  # removed options of jax.config are restored
        options = run["jax"]["values"]
        run["jax"]["values"] = {name: options[name] for name in python["jax"]["values"]}
    assert set(differences(python, run)) == expected


@pytest.mark.parametrize("program", [("probe.py", "a", "--b=c"), ("-m", "pkg.probe", "-x")])
def test_under_run(folder: Path, program: tuple[str, ...]) -> None:
    assert_like_python(folder, program, (*RUN, *program), EXPECTED)


@pytest.mark.exhaustive
@pytest.mark.parametrize("program", ["folder", "./folder/", "archive.zip", "./pkg/../probe.py"])
@pytest.mark.parametrize("variable", ["PYTHONUNBUFFERED", "PYTHONSAFEPATH", "PYTHONOPTIMIZE"])
def test_other_programs_and_settings(folder: Path, program: str, variable: str) -> None:
    path = {"PYTHONPATH": str(folder)} if variable == "PYTHONSAFEPATH" else {}
    environ = {variable: "1", "PYTHONWARNINGS": "error::ResourceWarning", **path}
    assert_like_python(folder, (program, "y"), (*RUN, program, "y"), EXPECTED, **environ)


@pytest.mark.exhaustive
@pytest.mark.parametrize("patch", [True, False])
def test_with_jax(folder: Path, patch: bool) -> None:
    program = ("probe.py", "--jax")
    ours = (*RUN, *(() if patch else ("--no-patch",)), *program)
    assert_like_python(folder, program, ours, EXPECTED | OLD if patch else set())


@pytest.mark.exhaustive
def test_while_it_is_recorded(folder: Path) -> None:
    program = ("probe.py", "--jax")
    ours = (*RUN, "--record", "run.json", *program)
    assert_like_python(folder, program, ours, EXPECTED | OLD | RECORDED)


@pytest.mark.exhaustive
def test_under_verify(folder: Path) -> None:
    options = RunOptions(record="run.json", quiet=True, facts=False, tape=TapeOptions())
    argument = to_json(Program("probe.py", ("--jax",)), options)
    ours = ("-m", "shardlift.verify.child", argument)
    expected = EXPECTED | TAPED
    assert_like_python(folder, ("probe.py", "--jax"), ours, expected)


def test_own_modules_of_the_program(tmp_path: Path) -> None:
    command, program = tmp_path / "bin/shardlift", tmp_path / "program/train.py"
    for path in (command, program):
        path.parent.mkdir()
    command.write_text("from shardlift.cli import main; main()")
    program.write_text("import click; print(click.button)")
    program.with_name("click.py").write_text("button = 'left'")
    done = children.run([sys.executable, command, "run", program], check=True)
    assert done.stdout == "left\n"
