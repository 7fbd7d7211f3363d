"""What holds for the package as a whole."""

from __future__ import annotations

import doctest
import importlib
import pathlib
import pkgutil
import re
import sys

import pytest

import shardlift
from tests import children

ROOT = pathlib.Path(__file__).parent.parent
SOURCE = ROOT / "src" / "shardlift"
MODULES = [info.name for info in pkgutil.walk_packages(shardlift.__path__, "shardlift.")]


def run_python(code: str) -> str:
    done = children.run([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_does_not_import_jax():
    code = "import sys, shardlift; print([m for m in ('jax', 'numpy') if m in sys.modules])"
    assert run_python(code) == "[]"


def test_importing_touches_no_device():
    code = (
        f"import importlib\nfor name in {MODULES}: importlib.import_module(name)\n"
        "from jax._src import xla_bridge\nprint(bool(xla_bridge._backends))"
    )
    assert run_python(code) == "False"


def test_without_jax_the_message_says_what_to_install():
    code = (
        "import sys; sys.modules['jax'] = None\n"
        "import shardlift\n"
        "try: shardlift.pmap\n"
        "except ImportError as error: print(error)"
    )
    assert 'pip install "shardlift[jax]"' in run_python(code)


def test_every_public_name_resolves():
    for name in shardlift.__all__:
        assert getattr(shardlift, name) is not None
    assert set(shardlift.__all__) <= set(dir(shardlift))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        shardlift.nothing  # noqa: B018


def test_private_jax_is_used_in_compat_only():
    pattern = re.compile(r"jax\._src|from jax import _src|jaxlib")
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if pattern.search(re.sub(r'"[^"\n]*"|#.*', "", path.read_text()))
    }
    assert users == {"_compat.py"}


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.failed == 0


def test_ci_runs_the_test_command_of_the_readme():
    commands = re.findall(r"```sh\n(.*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    demo, tests = commands[:2]
    assert demo.endswith("shardlift demo")
    assert tests.endswith("pytest -n 2")
    assert tests in (ROOT / ".ci" / "run").read_text()


def test_changelog_has_a_fragment_for_the_engine():
    kinds = {path.name.split(".")[-2] for path in (ROOT / "news").glob("*.md")}
    assert kinds <= {"added", "changed", "fixed"}
    assert kinds
