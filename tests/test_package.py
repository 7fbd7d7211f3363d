"""What holds for the package as a whole."""

import doctest
import importlib
import importlib.util
import pathlib
import pkgutil
import re
import shutil
import sys

import pytest

import shardlift
from tests import children

ROOT = pathlib.Path(__file__).parent.parent
SOURCE = ROOT / "src" / "shardlift"
# Modules that need an extra.
EXTRAS = {
    "shardlift.cli.lsp.": "pygls",
    "shardlift.rewrite.helper_texts.optimizers": "flax",
}


def _is_importable(module: str) -> bool:
    needed = (extra for prefix, extra in EXTRAS.items() if module.startswith(prefix))
    return all(importlib.util.find_spec(extra) is not None for extra in needed)


FOUND = [info.name for info in pkgutil.walk_packages(shardlift.__path__, "shardlift.")]
MODULES = [name for name in FOUND if _is_importable(name)]


def run_python(code: str) -> str:
    done = children.run([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_does_not_import_jax():
    code = (
        "import sys, shardlift.cli.run, shardlift.cli.doctor\n"
        "print([m for m in ('jax', 'numpy') if m in sys.modules])"
    )
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


def test_the_first_call_loads_few_modules_and_not_jax_extend():
    code = (
        "import sys, shardlift\n"
        "def loaded(*names): return sorted(m for m in sys.modules if m.startswith(names))\n"
        "assert loaded('shardlift') == ['shardlift'], loaded('shardlift')\n"
        "import jax\n"
        "shardlift.pmap(lambda x: x + 1)(jax.numpy.ones(1)).block_until_ready()\n"
        "print(*loaded('shardlift', 'jax.extend', 'jax.experimental.pallas'))"
    )
    modules = run_python(code).split()
    assert [name for name in modules if name.startswith("jax")] == []
    assert "shardlift.mapping.site" in modules
    assert len(modules) <= 23, modules


@pytest.mark.parametrize("before", ["", "shardlift._legacy, shardlift._replication", "*"])
@pytest.mark.parametrize("name", ["legacy", "replication"])
def test_legacy_and_replication_are_functions_whatever_was_imported(name, before):
    imports = f"import {', '.join(MODULES) if before == '*' else before or 'shardlift'}"
    code = f"{imports}\nimport types, shardlift\nprint(type(shardlift.{name}).__name__)"
    assert run_python(code) == "function"


# The files that may name private modules of JAX, and why.
PRIVATE_JAX = {
    "_compat.py": "uses them, each with a public fallback",
    "_legacy/former.py": "text: where names that moved are looked up, when a program asks for one",
}


def test_private_jax_is_named_in_these_files_only():
    pattern = re.compile(r"jax\._src|from jax import _src|jaxlib\.\w|import jaxlib")
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if pattern.search(path.read_text())
    }
    assert users == set(PRIVATE_JAX)


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.failed == 0


def test_ci_runs_the_test_command_of_the_readme():
    commands = re.findall(r"```sh\n(.*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    demo, tests = commands[0], commands[-1]
    assert demo.endswith("shardlift demo")
    assert tests.endswith("pytest -n 4")
    assert tests in (ROOT / ".ci" / "run").read_text()


def test_ci_fails_where_the_newest_jax_cannot_be_tested(tmp_path):
    """With nothing on PATH but what the script itself needs: no Python, so that nothing is run."""
    for tool in ("bash", "dirname"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    command = [tmp_path / "bash", ROOT / ".ci" / "run"]
    done = children.run(command, env=env)
    assert done.returncode == 1
    assert "error: the newest jax cannot be tested: it needs Python 3.12 or newer" in done.stderr
    assert done.stdout == ""
    alone = children.run(command, env={**env, "ALLOW_ONE_PYTHON": "1"})
    assert "the newest jax cannot be tested" not in alone.stderr
    assert alone.returncode == 1  # it goes on, and finds no python3 at all
    assert "ruff" not in alone.stdout + alone.stderr
