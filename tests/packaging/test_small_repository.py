"""What other repositories call, for real: pre-commit, the steps of the action, SARIF.

pre-commit and the action install this project with pip, so these tests need a package index.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.packaging.building import copy_tree
from tests.packaging.test_hooks import steps

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.libraries,
    pytest.mark.skipif(importlib.util.find_spec("pre_commit") is None, reason="needs pre-commit"),
]

OLD = "import jax\n\nstep = jax.tree_map(f, x)\n"
NEW = "import jax\n\nstep = jax.jit(lambda x: x)\n"
IDENTITY = {
    f"GIT_{who}_{what}": text
    for who in ("AUTHOR", "COMMITTER")
    for what, text in (("NAME", "A"), ("EMAIL", "a@example.org"))
}


def _git(folder: Path, *arguments: str) -> str:
    env = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull}
    return children.run(["git", *arguments], cwd=folder, env=env, check=True).stdout.strip()


def _commit(folder: Path) -> str:
    """Commit all files of a folder, in a repository that is created if need be."""
    _git(folder, "init", "-q")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "-m", "files")
    return _git(folder, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """This project as a repository, and its commit."""
    tree = copy_tree(tmp_path_factory.mktemp("released") / "tree")
    return tree, _commit(tree)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The repository of a user."""
    folder = tmp_path / "theirs"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "old.py").write_text(OLD)
    (folder / "src" / "new.py").write_text(NEW)
    (folder / "README.md").write_text("jax.pmap\n")
    _commit(folder)
    return folder


def _clean_environment(**more: str) -> dict[str, str]:
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "GITHUB_ACTIONS")
    return {k: v for k, v in os.environ.items() if k not in ours} | IDENTITY | more


def test_pre_commit(released: tuple[Path, str], repository: Path, tmp_path: Path) -> None:
    tree, commit = released
    config = {"repos": [{"repo": str(tree), "rev": commit, "hooks": [{"id": "shardlift-check"}]}]}
    (repository / ".pre-commit-config.yaml").write_text(json.dumps(config))  # JSON is YAML
    _commit(repository)
    env = _clean_environment(PRE_COMMIT_HOME=str(tmp_path / "cache"))

    def run() -> children.Done:
        command = [sys.executable, "-m", "pre_commit", "run", "--all-files", "--color", "never"]
        return children.run(command, cwd=repository, env=env, timeout=600)

    first = run()
    assert first.returncode == 1, first.stdout + first.stderr
    assert "src/old.py:3:8: SL105 [fix] jax.tree_map was removed" in first.stdout
    assert "README.md" not in first.stdout
    (hook,) = (tmp_path / "cache").glob("repo*/py_env*/bin/shardlift")
    check = [str(hook), "check", "--write-baseline"]
    children.run(check, cwd=repository, env=env, check=True)
    _git(repository, "add", "-A")
    second = run()
    assert second.returncode == 0, second.stdout + second.stderr


def test_the_steps_of_the_action(
    released: tuple[Path, str], repository: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "job", with_pip=True, symlinks=True)
    path = f"{tmp_path / 'job' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    action = _clean_environment(PATH=path, GITHUB_ACTION_PATH=str(released[0]))
    install, check = steps()

    def run(script: str, **inputs: str) -> children.Done:
        env = action | {"PATHS": ".", "ARGS": "", "FAIL": "true"} | inputs
        return children.run(["bash", "-e", "-c", script], cwd=repository, env=env, timeout=600)

    installed = run(install)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    failing = run(check)
    assert failing.returncode == 1, failing.stderr
    assert failing.stdout.startswith("::error file=src/old.py,line=3,col=8,")
    assert run(check, FAIL="false").returncode == 0
    assert run(check, PATHS="src/new.py").returncode == 0
    assert run(check, ARGS="--select SL9").returncode == 2
    sarif = run("python3 -m shardlift check --format sarif")
    _check_sarif(json.loads(sarif.stdout), repository)


def _check_sarif(document: Any, repository: Path) -> None:
    """Every result points at the text that it is about, from the root of the repository."""
    (run,) = document["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    lines = (repository / place["artifactLocation"]["uri"]).read_text().splitlines()
    region = place["region"]
    text = lines[region["startLine"] - 1][region["startColumn"] - 1 : region["endColumn"] - 1]
    assert (result["ruleId"], text) == ("SL105", "jax.tree_map")
