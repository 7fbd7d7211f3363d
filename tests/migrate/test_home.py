"""Where helpers live: at the top of a package, beside scripts, or in the file."""

from __future__ import annotations

import ast

import pytest

from shardlift.migrate.home import Home, find_home


def _home(path: str, text: str, *there: str) -> Home:
    known = {"/r/" + name for name in there}
    known |= {name.rpartition("/")[0] for name in known}
    return find_home(f"/r/{path}", ast.parse(text), known.__contains__)


@pytest.mark.parametrize(
    ("path", "text", "there", "module"),
    [
        ("pkg/m.py", "", ["pkg/__init__.py"], "pkg._spmd"),
        ("pkg/a/m.py", "", ["pkg/__init__.py", "pkg/a/__init__.py"], "pkg._spmd"),
        (
            "pkg/a/m.py",
            "from . import b",
            ["pkg/__init__.py", "pkg/a/__init__.py"],
            ".._spmd",
        ),
        ("my-repo/m.py", "", ["my-repo/__init__.py"], ""),
        ("top/sub/m.py", "from top.sub import n", ["top/sub/n.py"], "top._spmd"),
        ("m.py", "import n", ["n.py"], "_spmd"),
        ("m.py", "from lib import n", ["lib/n.py"], "lib._spmd"),
        ("tests/test_m.py", "import pkg", ["pkg/__init__.py"], "pkg._spmd"),
        ("tests/test_m.py", "import pkg", ["src/pkg/__init__.py"], "pkg._spmd"),
        ("scripts/m.py", "import pkg", ["pkg/__init__.py"], ""),
        ("alone.py", "import jax", [], ""),
        # A library that has the name of a folder above leads nowhere in it.
        ("top/lib/m.py", "from lib import agent", ["top/n.py"], ""),
        ("n.ipynb", "import jax", [], ""),
    ],
)
def test_homes(path: str, text: str, there: list[str], module: str) -> None:
    assert _home(path, text, *there).module == module
