"""The text that is written fits its project: annotations and imports."""

from __future__ import annotations

import pytest

from shardlift.rewrite.call_format import Style
from tests.rewrite.test_programs import migrated

pytestmark = pytest.mark.usefixtures("many_sites")

SITE = "import jax\n\n\ndef f(x):\n    return x\n\n\ng = jax.pmap(f)\n"
TYPED = "def f(x: int) -> int:\n    return x\n\n\n"
PLAIN = "def f(x):  # int -> int\n    '''f -> g -> h'''\n    return x  # -> x\n\n\n"


@pytest.mark.parametrize(
    ("text", "typed"), [(TYPED, True), (PLAIN, False), (TYPED + PLAIN, False), ("x = 1\n", False)]
)
def test_annotations_are_counted_on_functions(text: str, typed: bool) -> None:
    assert Style.of_helpers(text).typed is typed


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
