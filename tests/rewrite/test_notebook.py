"""Notebooks: only the cells that are edited change, whatever the layout of the JSON."""

import json

import pytest

from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.notebook import edit_cells, insert_cell
from shardlift.source.model import Edit, Span
from tests.notebooks import notebook, sources

CELLS = [
    {"cell_type": "markdown", "metadata": {}, "source": ["# <title> é\n"]},
    {
        "cell_type": "code",
        "execution_count": 3,
        "metadata": {},
        "outputs": [],
        "source": ["import jax\n", "x = 1 # <é>\n", "y = jax.tree_map(f, x)"],
    },
]
DOCUMENT = {"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
RENAME = Edit(Span(3, 4, 3, 16, cell=2), "jax.tree.map")
BY_HAND = """{"cells":  [
  {"cell_type": "code", "metadata": {}, "outputs": [
  ],
   "source": ["import jax\\n",
      "a = []\\n", "y = jax.tree_map(f, x)"   ] }
 ]
}
"""


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps(DOCUMENT, indent=1, ensure_ascii=False) + "\n",
        json.dumps(DOCUMENT, indent=2),
        json.dumps(DOCUMENT, indent=2).replace("<", "\\u003c").replace(">", "\\u003e"),
        json.dumps(DOCUMENT),
        json.dumps(DOCUMENT, indent=1).replace("\n", "\r\n"),
        json.dumps(DOCUMENT, indent=1).replace('"outputs": []', '"outputs": [\n   ]'),
    ],
    ids=["jupyter", "indent", "colab", "one line", "crlf", "empty list over two lines"],
)
def test_an_edit_changes_its_line_and_nothing_else(raw: str) -> None:
    after = edit_cells(raw, [RENAME])
    assert after == raw.replace("jax.tree_map", "jax.tree.map")


def test_a_layout_by_hand_stays() -> None:
    edit = Edit(Span(3, 4, 3, 16, cell=1), "jax.tree.map")
    after = edit_cells(BY_HAND, [edit])
    assert sources(after)[0].endswith("\ny = jax.tree.map(f, x)")
    assert after.startswith(BY_HAND[: BY_HAND.index('["import')])
    assert after.endswith(BY_HAND[BY_HAND.index("   ] }") :])


def test_a_source_of_one_string() -> None:
    raw = '{"cells": [{"cell_type":  "code", "source": "import jax\\ny = jax.tree_map(f, x)"}]}'
    edit = Edit(Span(2, 4, 2, 16, cell=1), "jax.tree.map")
    assert edit_cells(raw, [edit]) == raw.replace("tree_map", "tree.map")


@pytest.mark.parametrize("indent", [None, 1, 2, 4])
def test_a_cell_put_in_is_laid_out_as_the_others(indent: int | None) -> None:
    raw = json.dumps(DOCUMENT, indent=indent, ensure_ascii=False)
    after = insert_cell(raw, 2, "def f():\n    pass\n")
    new = {**CELLS[1], "execution_count": None, "source": ["def f():\n", "    pass"]}
    document = {**DOCUMENT, "cells": [CELLS[0], new, CELLS[1]]}
    assert after == json.dumps(document, indent=indent, ensure_ascii=False)
    raw = json.dumps({"cells": [{"id": "a", **CELLS[0]}]}, indent=indent)
    assert json.loads(insert_cell(raw, 1, "x"))["cells"][0]["id"] == "per-device"


def test_a_cell_put_into_a_layout_by_hand() -> None:
    after = insert_cell(BY_HAND, 1, "z = 1\n")
    assert [cell["source"][0] for cell in json.loads(after)["cells"]] == ["z = 1", "import jax\n"]
    assert after.endswith(BY_HAND[BY_HAND.index('"cell_type"') :])


@pytest.mark.parametrize(("other", "drops"), [("print(nn)", True), ("f(optim)", False)])
def test_a_removed_name_that_no_cell_uses_is_dropped(other: str, drops: bool) -> None:
    document = notebook("from flax import linen as nn, optim", other)
    done = migrate(["m.ipynb"], lambda _: document.encode(), lambda _: False, Goal.FIX)
    assert len(done.changed) == drops
    assert all(file.after == document.replace(", optim", "") for file in done.changed)


@pytest.mark.parametrize(
    ("other", "after"),
    [
        ("x = 1", "import jax"),
        ("!echo {os.sep}", "import os, jax"),
        ("%%bash\nos", "import os, jax"),
    ],
)
def test_an_import_that_no_cell_uses_any_more_is_dropped(other: str, after: str) -> None:
    set_up = "import os, jax\nfrom jax.tools import colab_tpu\n"
    document = notebook("import os", f"{set_up}colab_tpu.setup_tpu(os.sep)\njax.jit", other)
    done = migrate(["m.ipynb"], lambda _: document.encode(), lambda _: False, Goal.FIX)
    assert sources(done.changed[0].after) == ["import os", f"{after}\njax.jit", other]


TPU = "import jax.tools.colab_tpu\njax.tools.colab_tpu.setup_tpu()"
IF_TPU = f"if tpu:\n    {TPU.replace(chr(10), chr(10) + '    ')}\n\n"
XLA = "from jax.lib import xla_bridge\nprint(xla_bridge.get_backend().platform)"
JAX, PLATFORM = "import jax", "print(jax.default_backend())"
FUTURE = "from __future__ import annotations"
JIT, J = "from jax import jit", "j = jax.jit"
PART, NEW_PART = "y = jax.partial(f)", "y = functools.partial(f)"


@pytest.mark.parametrize(
    ("cells", "after"),
    [
        ([f"{IF_TPU}import jax\nx = jax.devices()"], ["import jax\nx = jax.devices()"]),
        # A cell that is emptied goes; one that was empty stays.
        (["", "\n", TPU, JAX, XLA], ["", "\n", JAX, PLATFORM]),
        ([JAX, TPU, f"# TPU\n{TPU}", f"#@title TPU\n{TPU}"], [JAX]),
        ([TPU], [JAX]),
        # Cells run from the first to the last.
        ([XLA, JAX], [f"{JAX}\n{PLATFORM}", JAX]),
        ([TPU, "1", XLA, JAX], ["1", f"{JAX}\n{PLATFORM}", JAX]),
        # Imports stand beside that of JAX, if that is above.
        ([JIT, XLA], [f"{JAX}\n{JIT}", PLATFORM]),
        ([TPU, f"# x\n{JAX}; {J}", PART], [f"# x\nimport functools\n{JAX}; {J}", NEW_PART]),
        ([f"{FUTURE}\n{JAX}\n{J}", PART], [f"{FUTURE}\nimport functools\n{JAX}\n{J}", NEW_PART]),
        ([f"{JAX}\n{J}; {PART}"], [f"import functools\n{JAX}\n{J}; {NEW_PART}"]),
        ([f"def f():\n    {XLA.replace(chr(10), chr(10) + '    ')}", JAX], None),
    ],
)
def test_cells_hold_what_they_need(cells: list[str], after: list[str] | None) -> None:
    document = notebook(*cells)
    done = migrate(["m.ipynb"], lambda _: document.encode(), lambda _: False, Goal.FIX)
    written = sources(done.changed[0].after)
    assert written == (after or [f"def f():\n    {PLATFORM}", JAX])


@pytest.mark.parametrize(("below", "is_kept"), [("## Data", False), ("Now x:", True)])
def test_a_heading_of_what_is_deleted_goes_with_it(below: str, is_kept: bool) -> None:
    document = json.loads(notebook(JAX, "## Set up the TPU", TPU, below, "x = jax"))
    for number in (1, 3):
        document["cells"][number]["cell_type"] = "markdown"
    text = json.dumps(document).encode()
    done = migrate(["m.ipynb"], lambda _: text, lambda _: False, Goal.FIX)
    kept = ["## Set up the TPU"] * is_kept
    assert sources(done.changed[0].after) == [JAX, *kept, below, "x = jax"]
