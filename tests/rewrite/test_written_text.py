"""The text that is written fits its project: licence, annotations, imports, and what it says."""

from __future__ import annotations

import os

import pytest

from shardlift.rewrite.call_format import Style
from shardlift.rewrite.helper_modules import formatter_width
from tests.rewrite.test_programs import migrated

pytestmark = pytest.mark.usefixtures("many_sites")

LICENCE = "# Copyright 2020 The Authors.\n# Licensed under the Apache License.\n\n"
SITE = "import jax\n\n\ndef f(x):\n    return x\n\n\ng = jax.pmap(f)\n"
PLACED = f"{SITE}jax.device_put_replicated(1, jax.devices())\n"


def helper_module(*texts: str) -> str:
    files = {f"p/m{k}.py": text for k, text in enumerate(texts)}
    return migrated({"p/__init__.py": "", **files})[0]["p/_spmd.py"]


@pytest.mark.parametrize(
    ("texts", "has_licence"),
    [
        ([LICENCE + PLACED, LICENCE + "import p\n", "x = 1\n"], True),
        ([LICENCE + PLACED, "x = 1\n"], False),
        ([LICENCE + PLACED, "x = 1\n", "y = 1\n"], False),
        ([PLACED, LICENCE + "x = 1\n", LICENCE + "y = 1\n"], True),
    ],
)
def test_a_licence_that_most_files_have(texts: list[str], has_licence: bool) -> None:
    assert helper_module(*texts).startswith(LICENCE) is has_licence


TYPED = "def f(x: int) -> int:\n    return x\n\n\n"
PLAIN = "def f(x):  # int -> int\n    '''f -> g -> h'''\n    return x  # -> x\n\n\n"


@pytest.mark.parametrize(
    ("text", "typed"), [(TYPED, True), (PLAIN, False), (TYPED + PLAIN, False), ("x = 1\n", False)]
)
def test_annotations_are_counted_on_functions(text: str, typed: bool) -> None:
    assert Style.of_helpers(text).typed is typed


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        ([SITE, SITE], "Map functions over devices"),
        ([PLACED], "Map functions over devices and put a row on each device"),
        (
            [f"import numpy as np\n{SITE}np.asarray(g(x)[0])\n"],
            "Map functions over devices and read first rows",
        ),
    ],
)
def test_the_first_line_of_the_helpers_is_true(texts: list[str], first: str) -> None:
    assert helper_module(*texts).splitlines()[0] == f'"""{first}."""'


def test_a_helper_that_one_file_needs_is_in_that_file() -> None:
    files, result = migrated({"p/__init__.py": "", "p/m.py": SITE})
    assert "def spmd_map(" in files["p/m.py"]
    assert not result.helper_modules


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"from jax import numpy as jnp\n{SITE}jnp.ones(1)\n", "from jax import numpy as jnp\n"),
        (f"import jax.numpy as np\n{SITE}np.ones(1)\n", "import jax.numpy as np\n"),
    ],
)
def test_no_second_import(before: str, after: str) -> None:
    text = migrated({"main.py": before})[0]["main.py"]
    assert text.count("numpy as") == text.count(after) == 1
    assert migrated({"main.py": text})[0]["main.py"] == text


def test_no_module_is_imported_that_nothing_uses_any_more() -> None:
    before = "import jax\nimport jax.core\n\nx = jax.core.Jaxpr\ny = jax.jit\n"
    after = "import jax\nimport jax.extend.core\n\nx = jax.extend.core.Jaxpr\ny = jax.jit\n"
    assert migrated({"main.py": before})[0]["main.py"] == after


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("[tool.black]\nline-length = 100\n", 100),
        ('[tool.ruff]\nsrc = "a"\nline-length = 120  # wide\n', 120),
        ("[tool.black]\npreview = true\n[tool.pylint]\nline-length = 100\n", None),
    ],
)
def test_the_width_of_black_and_ruff_is_read(text: str, width: int | None) -> None:
    texts = {os.path.abspath("above/pyproject.toml"): text.encode()}
    assert formatter_width("above/p/a.py", texts.__getitem__, texts.__contains__) == width
    texts[os.path.abspath("above/p/.git")] = b""
    assert formatter_width("above/p/a.py", texts.__getitem__, texts.__contains__) is None
