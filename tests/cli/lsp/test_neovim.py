"""The language server in a real editor: Neovim's own client, without a screen."""

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests import children

pytestmark = pytest.mark.usefixtures("many_sites")

PMAP = "import jax\n\nstep = jax.pmap(lambda x: x)\n"


@pytest.mark.exhaustive
@pytest.mark.libraries
@pytest.mark.skipif(importlib.util.find_spec("pygls") is None, reason="needs pygls")
@pytest.mark.skipif(shutil.which("nvim") is None, reason="needs Neovim (Debian: neovim)")
def test_neovim_shows_explains_and_rewrites(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(PMAP)
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "SHARDLIFT_PYTHON": sys.executable,
        "SHARDLIFT_FILE": str(tmp_path / "train.py"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    script = str(Path(__file__).with_name("neovim.lua"))
    command = ["nvim", "--headless", "--clean", "-n", "-c", f"luafile {script}", "-c", "cquit"]
    done = children.run(command, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    session = json.loads(done.stdout.splitlines()[-1])
    assert session["diagnostics"] == [{"code": "SL201", "line": 2}]
    assert session["hover"].startswith("**SL201 ")
    assert "Rewrite this with shard_map" in session["titles"]
    assert session["text"].rstrip().endswith("step = spmd_map(lambda x: x)\nmore = spmd_map(len)")
    assert (tmp_path / "train.py").read_text() == PMAP  # not saved
