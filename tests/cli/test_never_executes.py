"""`check`, `migrate`, `report`, `rule` and `env` execute nothing of the folder they are run in.

Every file here would leave a trace if it were imported or run.
"""

import os
import sys
from pathlib import Path

import pytest

import shardlift
from shardlift.facts import write
from tests import children
from tests.capture.captures import everything

SOURCE = Path(shardlift.__file__).parents[1]
TRACE = "open({trace!r}, 'a').write(__name__ + ' ')\n"
# Names of modules that the commands themselves import, and of what is run by other tools.
TRAPS = {
    *("jax", "jaxlib", "numpy", "click", "rich", "packaging", "flax", "shardlift_plugin", "train"),
    *("conftest", "setup", "sitecustomize", "usercustomize", "noxfile"),
}
# What `python -m` imports before it looks at what it is to run: no module can help there.
PYTHONS_OWN = "import runpy, sys; print(*sys.modules)"
PYPROJECT = """
[project]
name = "x"
dependencies = ["jax"]
[project.entry-points.shardlift]
plugin = "shardlift_plugin:main"
[tool.shardlift]
ignore = ["SL001"]
[tool.pytest.ini_options]
addopts = "-p shardlift_plugin"
"""


@pytest.fixture(scope="module")
def traps() -> list[str]:
    command = [sys.executable, "-P", "-c", PYTHONS_OWN]
    own = children.run(command, check=True).stdout.split()
    stdlib = sys.stdlib_module_names - {"__main__", "antigravity", "this", *own}
    assert {"json", "typing", "ast", "tokenize"} <= stdlib
    return sorted({*stdlib, *TRAPS})


@pytest.fixture
def hostile(tmp_path: Path, traps: list[str]) -> Path:
    """A project whose every file leaves a trace; `trace` beside it is that file."""
    folder = tmp_path / "project"
    folder.mkdir()
    line = TRACE.format(trace=str(tmp_path / "trace"))
    for name in traps:
        pmap = "import jax\nstep = jax.pmap(lambda x: x)\n" if name in TRAPS else ""
        (folder / f"{name}.py").write_text(line + pmap)
    for package in ("google", "yaml", "pkg"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text(line)
    (folder / "pkg" / "__main__.py").write_text(f"{line}import jax\njax.pmap(f)\n")
    (folder / "x.pth").write_text(f"import os; {line}")
    (folder / "pyproject.toml").write_text(PYPROJECT)
    write(everything(), folder / "run.json")
    return folder


# Anything that opens a socket ends the process: whatever a command needs is on this machine.
NO_NETWORK = """
import sys
def forbid(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind", "urllib.Request"):
        raise SystemExit(f"network: {event} {args}")
sys.addaudithook(forbid)
import shardlift.cli
shardlift.cli.main(prog_name="shardlift")
"""


def _run(folder: Path, *command: str, before: tuple[str, ...]) -> children.Done:
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "JAX_PLATFORMS": "cpu"}
    done = [sys.executable, *before, *command]
    return children.run(done, cwd=folder, env=env)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("check", ".", "--fail-on", "note"), 1),
        (("status", "."), 0),
        (("migrate", "."), 1),
        (("migrate", ".", "--write", "--allow-dirty"), 0),
        (("report", "run.json", "--html", "run.html"), 1),
        (("rule", "SL201"), 0),
        (("doctor",), 0),
    ],
)
def test_nothing_of_the_folder_is_executed(hostile: Path, command: tuple[str, ...], status: int):
    done = _run(hostile, *command, before=("-m", "shardlift"))
    trace = hostile.parent / "trace"
    assert not trace.exists(), trace.read_text()
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [("check", "."), ("migrate", "."), ("report", "run.json", "--html", "run.html"), ("rule",)],
)
def test_nothing_is_fetched(hostile: Path, command: tuple[str, ...]):
    done = _run(hostile, *command, before=("-P", "-c", NO_NETWORK))
    assert "network" not in done.stderr + done.stdout
    assert done.returncode in (0, 1), done.stderr
