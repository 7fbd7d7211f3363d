"""Projects that are formatted by yapf: their settings, and a helper that yapf leaves as it is."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from shardlift.rewrite.call_format import Style
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.formatter import formatter_width, yapf_style
from shardlift.rewrite.helpers import AXES, emit
from shardlift.source.model import HelperRequest

pytestmark = pytest.mark.usefixtures("many_sites")


@pytest.mark.parametrize(
    ("name", "text", "style"),
    [
        (".style.yapf", "[style]\nbased_on_style: yapf\n", "yapf"),
        (".style.yapf", "[style]\nindent_width = 2\n", "pep8"),
        ("setup.cfg", "[metadata]\nname = a\n[yapf]\nbased_on_style = google\n", "google"),
        ("pyproject.toml", '[tool.yapf]\nbased_on_style = "Facebook"\n', "facebook"),
        ("pyproject.toml", "[tool.yapfignore]\n[tool.ruff]\n", None),
        ("setup.cfg", "[metadata]\nbased_on_style = google\n", None),
    ],
)
def test_the_settings_of_yapf_are_read(name: str, text: str, style: str | None) -> None:
    texts = {os.path.abspath(os.path.join("above", name)): text.encode()}
    found = yapf_style("above/package/train.py", texts.__getitem__, texts.__contains__)
    assert found == style


def test_settings_above_the_repository_do_not_count() -> None:
    texts = {os.path.abspath(".style.yapf"): b"[style]\n", os.path.abspath("a/.git"): b""}
    assert yapf_style("a/b/train.py", texts.__getitem__, texts.__contains__) is None


@pytest.mark.parametrize(
    ("name", "settings", "imports"),
    [
        (".isort.cfg", "[settings]\nlines_between_types = 1\n", "import functools\n\nfrom col"),
        ("ruff.toml", "[lint.isort]\nlines-between-types = 1\n", "import functools\n\nfrom col"),
        ("pyproject.toml", "[tool.isort]\nforce_grid_wrap = 2\n", "abc import (\n    Callable,\n"),
        (
            "pyproject.toml",
            "[tool.isort]\nforce_grid_wrap = 4\n",
            "abc import Callable, Hashable, Sequence\n",
        ),
        ("setup.cfg", "[isort]\nlines_between_types = 0\n", "import functools\nfrom col"),
    ],
)
def test_imports_are_laid_out_as_isort_is_asked_to(name: str, settings: str, imports: str) -> None:
    site = "import jax\ndef f(x: int) -> int:\n    return x\ng = jax.pmap(f)\n"
    files = {"p/__init__.py": "", "p/a.py": site, name: settings}
    texts = {path: text.encode() for path, text in files.items()}
    texts |= {os.path.abspath(path): text for path, text in texts.items()}
    (module,) = migrate(["p/a.py"], texts.__getitem__, texts.__contains__).helper_modules
    assert imports in module.after


def test_closing_brackets_stand_behind_the_last_argument() -> None:
    helpers = [HelperRequest("spmd_map", frozenset({AXES}), "i"), HelperRequest("per_row_of")]
    text = emit(helpers, replace(Style(80, "  ", "'"), hugging=True))
    assert "check_vma=False)\n" in text
    assert "def at_axes(change, axes, tree):\n\n    def part" in text


@pytest.mark.parametrize(("style", "gap"), [("yapf", "\n"), ("google", "\n\n")])
def test_a_licence_header_is_joined_as_yapf_joins_it(style: str, gap: str) -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": "# Copyright A.\n\nimport jax\nf = jax.pmap(lambda x: x)\n",
        "p/b.py": "# Copyright A.\n\nfrom p import a\nimport jax\nf = jax.pmap(lambda x: x)\n",
        ".style.yapf": f"[style]\nbased_on_style = {style}\n",
    }
    texts = {os.path.abspath(path): text.encode() for path, text in files.items()}

    def read(path: str) -> bytes:
        return texts[os.path.abspath(path)]

    result = migrate(list(files)[:3], read, lambda path: os.path.abspath(path) in texts)
    (module,) = result.helper_modules
    assert module.after.startswith(f'# Copyright A.{gap}"""')


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("[tool.black]\nline-length = 100\n", 100),
        ('[tool.ruff]\nsrc = "a"\nline-length = 120  # wide\n', 120),
        ("[tool.black]\npreview = true\n[tool.pylint]\nline-length = 100\n", None),
    ],
)
def test_the_width_of_black_and_ruff_is_read(text: str, width: int | None) -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": "import jax\nf = jax.pmap(lambda x: x)\n",
        "pyproject.toml": text,
    }
    texts = {os.path.abspath(path): text.encode() for path, text in files.items()}

    def read(path: str) -> bytes:
        return texts[os.path.abspath(path)]

    def exists(path: str) -> bool:
        return os.path.abspath(path) in texts

    assert formatter_width("p/a.py", read, exists) == width
    (module,) = migrate(list(files)[:2], read, exists).helper_modules
    assert ("@jax.shard_map(\n" in module.after) is (width is None)
