"""Imports that a rewrite needs stand before what needs them."""

import pytest

from shardlift.rewrite.import_order import in_order
from shardlift.rewrite.imports import add_imports, import_more
from tests.rewrite.test_programs import migrated

SITE = "import jax\n\n\ndef f(x):\n    return x\n\n\ng = jax.pmap(f)\n"
EARLY = "import jax\nf = helper(jax)\nimport sys\n"


@pytest.mark.parametrize(
    ("text", "needed_by", "expected"),
    [
        # The imports at the top end where the helper is used: not at an import further down.
        (EARLY, {"helper"}, "import functools\n\n" + EARLY),
        # One that stands too far down is not enough.
        (
            "import jax\nf = helper(jax)\nimport functools\n",
            {"helper"},
            "import functools\n\nimport jax\nf = helper(jax)\nimport functools\n",
        ),
        (
            "import sys\nf = functools.partial(sys)\nimport os\n",
            (),
            "import functools\nimport sys\nf = functools.partial(sys)\nimport os\n",
        ),
        (
            "import functools\nf = helper(functools)\n",
            {"helper"},
            "import functools\nf = helper(functools)\n",
        ),
        (
            "'D'; import jax; helper(jax)\n",
            (),
            "import functools\n\n'D'; import jax; helper(jax)\n",
        ),
    ],
)
def test_before_the_first_use(text: str, needed_by: set[str], expected: str) -> None:
    assert add_imports(text, {"import functools"}, needed_by=needed_by) == expected


@pytest.mark.parametrize(
    ("text", "added", "expected"),
    [
        # As isort has it: `import` first, unless the file shows another order.
        (
            "import p.x as x\nfrom p.y import y\n",
            "from p._spmd import f",
            "import p.x as x\nfrom p._spmd import f\nfrom p.y import y\n",
        ),
        (
            "from p.a import y\nimport p.x as x\n",
            "from p._spmd import f",
            "from p._spmd import f\nfrom p.a import y\nimport p.x as x\n",
        ),
        # Beside the imports of the same library.
        (
            "import jax.numpy as jnp\n\nfrom ab.util import f\n",
            "import jax.extend",
            "import jax.extend\nimport jax.numpy as jnp\n\nfrom ab.util import f\n",
        ),
        # A comment of several lines belongs to the file.
        (
            '"""Doc."""\n# Adapted\n# from\nimport jax\n',
            "import functools",
            '"""Doc."""\n# Adapted\n# from\nimport functools\n\nimport jax\n',
        ),
    ],
)
def test_among_the_others(text: str, added: str, expected: str) -> None:
    assert add_imports(text, {added}) == expected


def test_a_name_that_typing_gives_is_not_imported_twice() -> None:
    text = "from typing import Callable, Sequence\n\ndef f(x: Callable) -> Sequence: ...\n"
    assert add_imports(text, {"from collections.abc import Callable"}) == text
    assert "Hashable" in add_imports(text, {"from collections.abc import Hashable"})


def test_names_of_a_module_are_on_one_line_though_an_alias_has_its_own() -> None:
    before = "from a import b as c\nfrom a import d\n"
    new = "from e import f\nfrom e import g\n"
    assert in_order(before, before + new) == f"{before}from e import f, g\n"


def test_names_of_a_module_that_are_added_are_on_one_line() -> None:
    added = {"from a import b", "from a import c", "import a"}
    assert add_imports("x = 1\n", added) == "import a\nfrom a import b, c\n\nx = 1\n"
    both = "from a import b, d\nfrom e import f\n"
    assert add_imports(both, added) == f"import a\n{both.replace('b,', 'b, c,')}"
    unsorted = "from e import C, f\nimport b\n"  # which isort would not put together
    joined = add_imports(unsorted, {"from e import d", "from e import B"}, needed_by={"helper"})
    assert joined == "from e import B, C, d, f\nimport b\n"
    apart = "from e import f\nfrom e import g\n"  # as force_single_line has it
    assert add_imports(apart, added) == f"import a\nfrom a import b\nfrom a import c\n{apart}"


def test_the_order_is_that_of_the_text_before() -> None:
    text = "import time\nimport numpy\nfrom datetime import date\n"
    added = {"from collections.abc import Callable", "from jax import P"}
    assert add_imports(text, added) == (
        "import time\nfrom collections.abc import Callable\nimport numpy\nfrom jax import P\n"
        "from datetime import date\n"
    )


def test_an_import_of_the_future_stays_first() -> None:
    before = "from __future__ import annotations\nfrom jax import numpy as jnp\n"
    after = "from __future__ import annotations\nimport jax\n"
    assert in_order(before, after) == after


def test_each_section_in_its_order() -> None:
    text = '"""Doc."""\n\nimport sys\n\nimport numpy\n\nx = 1\n'
    added = {"import os", "import jax", "from a import b", "import functools"}
    assert add_imports(text, added) == (
        '"""Doc."""\n\nimport functools\nimport os\nimport sys\n\n'
        "import jax\nimport numpy\nfrom a import b\n\nx = 1\n"
    )


@pytest.mark.usefixtures("many_sites")
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
    ("text", "expected"),
    [
        ("from .u import A, n\r\nn(1)\r\n", "from .u import A, m, n\r\nn(1)\r\n"),
        ("from .u import n, a\n", "from .u import n, a, m\n"),
        ("from .u import (\n    a,  # b\n)\n", "from .u import (\n    a,\n    m,  # b\n)\n"),
        ("from .u import (\r\n    a\r\n)\r\n", "from .u import (\r\n    a,\r\n    m\r\n)\r\n"),
        ("from ..u import n\n", None),
        ("from .u import *\n", None),
        ("m(1)\nfrom .u import n\n", None),
        ("from .u import a_name_as_long_as_this_one\n", None),
    ],
)
def test_into_the_statement_of_its_module(text: str, expected: str | None) -> None:
    assert import_more(text, "from .u import m", 40) == expected
