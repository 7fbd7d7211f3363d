"""A helper is no longer than its sites need, and grows when a later site needs more."""

from __future__ import annotations

import ast

import pytest

from shardlift.rewrite.call_format import Style
from shardlift.rewrite.helpers import extended
from shardlift.rewrite.spmd_map import Feature, features_in, request
from tests.rewrite.test_programs import migrated

NEEDS_ANY = {Feature.REMAPPED, Feature.UNNAMED}
HEAD = "import jax\n\n\ndef f(x):\n    return jax.numpy.sin(x)\n\n\n"


def written(text: str) -> set[str]:
    """The features of the `spmd_map` that a text defines."""
    function = next(
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name == "spmd_map"
    )
    return set(features_in(function, text))


@pytest.mark.parametrize(
    ("site", "features"),
    [
        ("g = jax.pmap(f)\n", ""),
        ("g = jax.pmap(f, 'i', donate_argnums=0)\n", "donate"),
        ("@jax.pmap\ndef g(x):\n    return x\n", ""),
        ("g = jax.pmap(lambda x: x)\n", ""),
        ("def h():\n    return jax.pmap(lambda x: x)\n", ""),
        ("def h():\n    @jax.pmap\n    def g(x):\n        return x\n    return g\n", ""),
        ("NAME = 'i'\ng = jax.pmap(f, axis_name=NAME)\n", ""),
        ("def h():\n    return jax.pmap(f)\n", "remapped"),
        ("def h(self):\n    return jax.pmap(self.f)\n", "remapped"),
        ("g = [jax.pmap(k) for k in K]\n", "remapped"),
        # A new function each time cannot be found again: a cache would only keep it alive.
        ("def h():\n    def k(x):\n        return x\n    return jax.pmap(k)\n", ""),
        ("import functools\ndef h(n):\n    return jax.pmap(functools.partial(f, n))\n", ""),
        (
            "def h():\n    def k(x):\n        return x\n    for _ in I:\n        jax.pmap(k)\n",
            "remapped",
        ),
        (
            "def h():\n    def k(x):\n        return x\n    return jax.pmap(k), jax.pmap(k)\n",
            "remapped",
        ),
        ("AXES = (1, 0)\ng = jax.pmap(f, in_axes=AXES)\n", "axes"),
        (
            "def h():\n    return jax.pmap(f, donate_argnums=tuple(range(2, n)))\n",
            "remapped donate",
        ),
        (
            "def h():\n    return jax.pmap(f, in_axes=(0,) * 2 + (None,))\n",
            "remapped axes",
        ),
        ("g = jax.pmap(f, in_axes=(None, 0))\n", "axes"),
        ("g = jax.pmap(f, in_axes=(1, 0))\n", "axes"),
        ("g = jax.pmap(f, in_axes=[1, 0])\n", "axes"),
        ("g = jax.pmap(f, out_axes=None)\n", "axes out_axes"),
        ("def h():\n    return jax.pmap(f, in_axes=1)\n", "axes remapped"),
        ("def h():\n    return jax.pmap(f, in_axes=({'a': 0},))\n", "axes remapped"),
        ("g = jax.pmap(f, static_broadcasted_argnums=1)\n", "static"),
        ("g = jax.pmap(f, devices=jax.devices()[:2])\n", "devices"),
        ("def h(name):\n    return jax.pmap(f, axis_name=name)\n", "remapped unnamed"),
        (
            "g = jax.pmap(f)\nh = jax.pmap(f, out_axes=1, donate_argnums=0)\n",
            "axes out_axes donate",
        ),
    ],
)
def test_the_smallest_text_that_serves(site: str, features: str) -> None:
    after, _ = migrated({"main.py": HEAD + site})
    assert written(after["main.py"]) == set(features.split())


def test_pmap_as_a_value_may_be_called_in_any_way() -> None:
    after, _ = migrated({"main.py": f"{HEAD}g = dict(transform=jax.pmap)\n"})
    assert written(after["main.py"]) == NEEDS_ANY
    said = "OPTIONS = {'in_axes': axes, 'donate_argnums': 0}\n"
    after, _ = migrated({"main.py": f"{HEAD}g = dict(transform=jax.pmap)\n", "other.py": said})
    assert written(after["main.py"]) == {*NEEDS_ANY, Feature.AXES, Feature.DONATE}


def test_a_package_has_one_text_that_serves_all_its_files() -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": f"{HEAD}g = jax.pmap(f, 'batch')\n",
        "p/b.py": f"{HEAD}g = jax.pmap(f, in_axes=1)\n",
    }
    after, _ = migrated(files)
    assert written(after["p/_spmd.py"]) == {Feature.AXES}
    assert "from p._spmd import spmd_map\n" in after["p/a.py"]


@pytest.mark.parametrize("lone", [True, False])
def test_a_later_site_that_needs_more_gets_it(lone: bool) -> None:
    path = "main.py" if lone else "p/main.py"
    home = path if lone else "p/_spmd.py"
    files = {path: f"{HEAD}g = jax.pmap(f, 'batch')\n"} | ({} if lone else {"p/__init__.py": ""})
    after, _ = migrated(files)
    wanted: set[str] = set()
    for option, feature in (("in_axes=1", "axes"), ("static_broadcasted_argnums=1", "static")):
        after[path] += f"h = jax.pmap(f, {option})\n"
        wanted.add(feature)
        after, result = migrated(after)
        assert written(after[home]) == wanted
        assert after[home].count("def spmd_map(") == 1
        assert not any(file.refused for file in result.files)
        compile(after[home], home, "exec")
    assert migrated(after)[0] == after


def test_a_text_that_was_changed_by_hand_is_left_alone() -> None:
    after, _ = migrated({"main.py": f"{HEAD}g = jax.pmap(f)\n"})
    mine = after["main.py"].replace("check_vma=False", "check_vma=True")
    wanted = [request([Feature.STATIC], None)]
    again, missing, _ = extended(mine, wanted, Style.plain())
    assert again == mine
    assert "spmd_map" not in {helper.name for helper in missing}
