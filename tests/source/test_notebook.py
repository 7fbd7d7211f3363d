"""Notebooks: cells, lines, magics, and cells that are not Python."""

import json

import pytest

from shardlift.check.engine import check_texts
from shardlift.rewrite.engine import migrate
from shardlift.source.notebook import python_of_cell


def _notebook(*cells: str) -> str:
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "# t"}, *code]})


def test_cell_and_line_of_a_finding() -> None:
    text = _notebook("import jax\nx = 1", "y = 2\n\np = jax.pmap(f)")
    report = check_texts({"n.ipynb": text})["n.ipynb"]
    (finding,) = report.findings
    assert (finding.code, finding.span.cell, finding.span.line) == ("SL201", 3, 3)
    assert finding.span.column == 4


def test_names_are_known_from_cell_to_cell_and_a_source_may_be_one_string() -> None:
    cells = ("from jax import pmap as p", "g = p(f)")
    one = json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]})
    for text in (one, _notebook(*cells)):
        assert check_texts({"n.ipynb": text})["n.ipynb"].sites == 1


@pytest.mark.parametrize(
    "magic",
    [
        "%timeit for _ in x: f(x)",
        "!pip install jax",
        "?jax.pmap",
        "jax.pmap?",
        "files = !ls",
        "x = %who_ls",
        "  %cd ..",
    ],
)
def test_magics_are_set_aside(magic: str) -> None:
    first = "if True:" if magic.startswith(" ") else "a = 1"
    lines = python_of_cell(f"{first}\n{magic}\nb = 2").split("\n")
    assert [line.strip() for line in lines] == [first, "pass", "b = 2"]


@pytest.mark.parametrize("magic", ["%time ", "%timeit ", "%timeit -n 3 -r 1 ", "  %prun -s cum "])
def test_what_a_magic_runs_is_looked_at_where_it_stands(magic: str) -> None:
    first = "if True:" if magic.startswith(" ") else "x = 1"
    text = _notebook("import jax", f"{first}\n{magic}y = jax.tree_map(f, x)")
    (finding,) = check_texts({"n.ipynb": text})["n.ipynb"].findings
    where = (finding.span.cell, finding.span.line, finding.span.column)
    assert where == (3, 2, len(magic) + 4)


def test_cell_magics() -> None:
    assert python_of_cell("%%bash\nls\npwd") == "\n\n"
    assert python_of_cell("%%time\nx = 1") == "pass\nx = 1"


def test_python_that_only_looks_like_a_magic() -> None:
    text = "x = (a\n%b)"
    assert python_of_cell(text) == text


def test_a_cell_that_is_not_python_is_named_and_the_rest_is_read() -> None:
    text = _notebook("import jax", "this is no python", "jax.pmap(f)")
    report = check_texts({"n.ipynb": text})["n.ipynb"]
    assert report.broken_cells == (3,)
    assert [finding.span.cell for finding in report.findings] == [4]


def test_suppression_in_a_cell() -> None:
    text = _notebook("import jax\nx = 1", "jax.pmap(f)  # noqa: SL201")
    report = check_texts({"n.ipynb": text})["n.ipynb"]
    assert report.findings == ()
    assert report.suppressed == 1


@pytest.mark.parametrize(
    "cell",
    [
        "from jax.tools import colab_tpu",
        "from jax.tools import (\n    colab_tpu,\n    jax_to_ir,\n)",
        "import jax\njax.tools.colab_tpu.setup_tpu()",
    ],
)
def test_names_are_found_in_the_json_before_anything_is_parsed(cell: str) -> None:
    report = check_texts({"n.ipynb": _notebook(cell)})["n.ipynb"]
    assert [finding.code for finding in report.findings] == ["SL107"]


@pytest.mark.parametrize("following", [[], ["x = 1"]])
def test_a_statement_at_the_end_of_a_cell_goes_alone(following: list[str]) -> None:
    cells = ["import jax\njax.config.update('jax_pmap_shmap_merge', False)", *following]
    document = {"cells": [{"cell_type": "code", "source": text} for text in cells]}
    raw = json.dumps(document, indent=1) + "\n"
    done = migrate(["a.ipynb"], lambda _: raw.encode(), lambda _: False)
    assert done.unreadable == ()
    (file,) = done.changed
    assert [cell["source"] for cell in json.loads(file.after)["cells"]] == [
        "import jax",
        *following,
    ]
