"""The distributions, built from a copy of the tree, without a network."""

import importlib.util
import os
import shutil
import sys
import venv
import zipfile
from pathlib import Path

from tests import children

ROOT = Path(__file__).resolve().parents[2]
# What `pip install shardlift` brings with it, and what these need in turn.
LIGHT = ("click", "packaging", "rich", "markdown_it", "mdurl", "pygments")

_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info", "build", "dist"
)
_BUILD = """
import os, sys
os.umask(int(sys.argv[2], 8))
from hatchling.build import build_sdist, build_wheel
print(build_sdist(sys.argv[1]), build_wheel(sys.argv[1]))
"""


def copy_tree(to: Path) -> Path:
    """The files of the project, and none that tools have made beside them."""
    shutil.copytree(ROOT, to, ignore=_LEFT_OUT)
    return to


def build(tree: Path, out: Path, umask: int = 0o022) -> tuple[Path, Path]:
    """The sdist and the wheel of a tree."""
    out.mkdir()
    env = {k: v for k, v in os.environ.items() if k != "SOURCE_DATE_EPOCH"}
    command = [sys.executable, "-c", _BUILD, str(out), oct(umask)]
    done = children.run(command, cwd=tree, env=env)
    assert done.returncode == 0, done.stderr
    sdist, wheel = done.stdout.split()[-2:]
    return out / sdist, out / wheel


def install(wheel: Path, to: Path) -> Path:
    """The interpreter of a new environment that has the wheel, what it requires, and no JAX."""
    venv.create(to, with_pip=False, symlinks=True)
    (site,) = (to / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for name in LIGHT:
        spec = importlib.util.find_spec(name)
        assert spec is not None, f"{name} is not installed here"
        assert spec.submodule_search_locations
        os.symlink(spec.submodule_search_locations[0], site / name)
    return to / "bin" / "python"
