"""The prefilter: which rules may match, by the bytes of a file."""

import json

import pytest

from shardlift.check.prefilter import active_codes
from shardlift.check.rules import all_rules


def _active(text: str, notebook: bool = False) -> tuple[str, ...]:
    return active_codes(text.encode(), tuple(all_rules()), notebook)


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("import jax\njax.tree_map(f)", "SL105", True),
        ("from jax import (\n    jit,\n    tree_map,\n)", "SL105", True),
        ("from jax import jit, tree_map as t", "SL105", True),
        ("from jax import jit, \\\n    tree_map", "SL105", True),
        ("import jax as j\nj.tree_map(f)", "SL105", True),
        ("from jax import tree_util as u\nu.tree_multimap(f)", "SL105", True),
        ("import jax\nfrom names import *\njnp.DeviceArray", "SL108", True),
        ("import jax\njax.tree_util.tree_map(f)", "SL105", False),
        ("from jax.tree_util import tree_map", "SL105", False),
        ("tree_map(f)", "SL105", False),
        ("from jax import jit  # not tree_map", "SL105", False),
        ("import objax\nobjax.tree_map(f)", "SL105", False),
        ("import acme.jax\nacme.jax.tree_map(f)", "SL105", False),
        ("import my_jax\nmy_jax.tree_map(f)", "SL105", False),
        ("from jax import (" + "x, " * 9999 + "tree_map", "SL105", False),
        ("pmap", "SL201", True),
        ("objax.Parallel(f)", "SL201", True),
        ("Parallel(f)", "SL201", False),  # no word of any library: not even searched
        ("import numpy", "SL201", False),
        ("x = 1  # noqa: SL201", "SL001", True),
        ("x = 1  # noqa: E501, SL201", "SL001", True),
        ("x = 1  # noqa: sl201", "SL001", True),
        ("x = 1  # noqa: E501", "SL001", False),
        ("x = 1  # noqa", "SL001", False),
        ("x = np.stack([y] * n)  # noqa: F821", "SL301", False),  # numpy's alone
        ("jax.pmap(f, in_axes=-1)", "SL207", True),
        ("jax.vmap(f, in_axes=-1)", "SL207", False),
        ("from jax import P\nif P('i') == \\\n  ('i',): pass", "SL714", True),
        ("from jax import P\ns = P('i')\nif s == spec: pass", "SL714", False),
        ("import jax\nm = jax.make_mesh(s, n)\nif x:\n    with m: pass", "SL712", True),
        ("import jax\nm = jax.make_mesh(s, n)  # with n", "SL712", False),
    ],
)
def test_names_words_and_patterns(text: str, code: str, expected: bool) -> None:
    assert (code in _active(text)) is expected


def test_only_the_selected_codes() -> None:
    assert active_codes(b"import jax\njax.pmap(f)", ("SL105", "SL201")) == ("SL201",)
    assert active_codes(b"import jax\njax.pmap(f)", ("SL105",)) == ()


def test_notebooks_are_searched_line_by_line() -> None:
    cell = {"cell_type": "code", "source": ["from jax import (\n", "    tree_map,\n", ")"]}
    text = json.dumps({"cells": [cell]})
    assert "SL105" in _active(text, notebook=True)
