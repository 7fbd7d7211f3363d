"""The commands where something around them is missing, closed, full, narrow or old."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import shardlift
from shardlift.facts import write
from tests import children
from tests.capture.captures import everything

pytestmark = pytest.mark.slow
SOURCE = Path(shardlift.__file__).parents[1]
PROGRAM = """
import jax, numpy as np, sys
jax.pmap(lambda x: x + 1)(np.zeros((jax.local_device_count(), 2)))
sys.exit(int(sys.argv[1]) if sys.argv[1:] else 0)
"""
COMMANDS = (
    ("check", "é.py", "--format", "full", "--fail-on", "note"),
    ("migrate", "é.py"),
    ("report", "run.json"),
    ("rule", "SL2"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "é.py").write_text("import jax\ns = 'é\u2028'; step = jax.pmap(f)\n")
    (tmp_path / "train.py").write_text(PROGRAM)
    write(everything("é"), tmp_path / "run.json")
    return tmp_path


def run(folder: Path, *command: str, path: str = "", **options: Any) -> tuple[int, str, str]:
    env = {**os.environ, "PYTHONPATH": path or str(SOURCE), "JAX_PLATFORMS": "cpu"}
    env["JAX_ENABLE_COMPILATION_CACHE"] = "0"  # where files cannot be written, it warns
    env |= options.pop("env", {})
    # Not by preexec_fn: that forks, and JAX warns of forks.
    shell = ["sh", "-c", f'{options.pop("first", ":")}; exec "$@"', "sh"]
    done = children.run(
        [*shell, sys.executable, *options.pop("flags", ()), "-m", "shardlift", *command],
        cwd=folder, env=env, stderr=children.PIPE, errors="replace", **options,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def test_no_room_below_stdout(folder: Path) -> None:
    for command in COMMANDS[:3]:
        with open("/dev/full", "wb") as full:
            status, _, error = run(folder, *command, stdout=full)
        assert (status, error) == (2, "shardlift: No space left on device\n")


def test_stdout_is_closed(folder: Path) -> None:
    """Before the command begins, or by a reader that goes away."""
    assert [run(folder, *c, first="exec >&-")[0] for c in COMMANDS] == [1, 1, 1, 0]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        assert run(folder, *COMMANDS[0], stdout=pipe)[2] == ""


def test_letters_that_the_terminal_does_not_have(folder: Path) -> None:
    env = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "COLUMNS": "1", "TERM": "dumb"}
    for command, wanted in zip(COMMANDS, (1, 1, 1, 0), strict=True):
        status, stdout, _ = run(folder, *command, env=env)
        assert status == wanted
        assert stdout
        assert stdout.isascii() or command[0] == "migrate"  # a diff is the bytes of the file


def test_a_record_that_cannot_be_written(folder: Path) -> None:
    said = "shardlift: the record "
    for status, wanted in (("0", 2), ("3", 3)):
        record = ("run", "--record", "new.json", "train.py", status)
        got, _, error = run(folder, *record, first="ulimit -f 0")
        assert got == wanted  # the program's own, unless it is 0
        assert error.startswith(said)
        assert "could not be written: File too large" in error
    assert not (folder / "new.json").exists()


def test_an_old_jax(folder: Path) -> None:
    old = folder / "old"
    (old / "jax").mkdir(parents=True)
    (old / "jax" / "__init__.py").write_text('__version__ = "0.4.30"\n')
    (old / "jax-0.4.30.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: jax\nVersion: 0.4.30\n"
    (old / "jax-0.4.30.dist-info" / "METADATA").write_text(metadata)
    path = os.pathsep.join([str(old), str(SOURCE)])
    for command in (("run", "train.py"), ("verify", "train.py", "train.py"), ("doctor",)):
        status, _, error = run(folder, *command, path=path)
        assert status == 2
        assert "JAX 0.4.30 is installed, but 0.10 or newer is needed" in error
    for command, wanted in zip(COMMANDS, (1, 1, 1, 0), strict=True):
        assert run(folder, *command, path=path)[0] == wanted
    library = "import shardlift._compat"
    env = {**os.environ, "PYTHONPATH": path}
    done = children.run([sys.executable, "-c", library], env=env)
    assert "shardlift needs JAX 0.10 or newer, and this is 0.4.30" in done.stderr


def test_no_jax(folder: Path) -> None:
    import click
    import rich

    import packaging

    light = folder / "light"
    light.mkdir()
    for module in (click, packaging, rich):
        os.symlink(Path(module.__file__).parent, light / module.__name__)  # type: ignore[arg-type]
    path = os.pathsep.join([str(light), str(SOURCE)])

    def without(*command: str) -> tuple[int, str, str]:
        return run(folder, *command, path=path, flags=("-S",))

    for command in (("verify", "train.py", "train.py"), ("demo", "--into", "demo")):
        status, _, error = without(*command)
        assert status == 2
        assert 'pip install "shardlift[jax]"' in error
    assert not (folder / "demo").exists()
    status, out, error = without("doctor")
    assert status == 2
    assert "jax not installed" in out
    assert "JAX is not installed" in error
    assert [without(*command)[0] for command in COMMANDS] == [1, 1, 1, 0]


def test_no_such_platform(folder: Path) -> None:
    env = {"JAX_PLATFORMS": "nonexistent"}
    status, stdout, _ = run(folder, "doctor", env=env)
    assert status == 1
    assert "your devices: RuntimeError: Unable to initialize backend 'nonexistent'" in stdout
    assert "→ JAX_PLATFORMS=cpu uses the CPU" in stdout


def test_jax_before_devices(folder: Path) -> None:
    (folder / "count.py").write_text("import jax; print(jax.device_count())")
    path = os.pathsep.join([str(folder), str(SOURCE)])
    early = ("run", "-q", "--devices", "3", "count.py")
    (folder / "sitecustomize.py").write_text("import jax")
    assert run(folder, *early, path=path)[:2] == (0, "3\n")
    (folder / "sitecustomize.py").write_text("import jax; jax.devices()")
    status, _, error = run(folder, *early, path=path)
    assert status == 2
    assert "JAX_NUM_CPU_DEVICES=3" in error
