"""A helper is no longer than its sites need, and grows when a later site needs more."""

from __future__ import annotations

import pytest

from shardlift.migrate.helpers import catalogue, extended, required
from tests.migrate.test_programs import migrated

HEAD = "import jax\n\n\ndef f(x):\n    return x\n\n\n"
NAME = "shard_map_per_device"
TEXTS = {key: catalogue()[key].source for key in catalogue() if key.startswith(NAME)}
PLAIN, SPECS, WHOLE = f"{NAME}[plain]", f"{NAME}[specs]", NAME


def chosen(text: str) -> str:
    """The variant that a text has, the longest if one contains another."""
    found = [key for key, source in TEXTS.items() if source in text]
    assert found, text
    return max(found, key=lambda key: len(TEXTS[key]))


@pytest.mark.parametrize(
    ("site", "variant"),
    [
        ("g = jax.pmap(f)\n", PLAIN),
        ("g = jax.pmap(f, 'i', donate_argnums=0)\n", PLAIN),
        ("@jax.pmap\ndef g(x):\n    return x\n", PLAIN),
        ("g = jax.pmap(lambda x: x)\n", PLAIN),
        ("def h():\n    return jax.pmap(lambda x: x)\n", PLAIN),
        ("def h():\n    @jax.pmap\n    def g(x):\n        return x\n    return g\n", PLAIN),
        ("NAME = 'i'\ng = jax.pmap(f, axis_name=NAME)\n", PLAIN),
        ("def h():\n    return jax.pmap(f)\n", f"{NAME}[plain, cached]"),
        ("g = jax.pmap(f, in_axes=(None, 0))\n", SPECS),
        ("g = jax.pmap(f, out_axes=None)\n", SPECS),
        ("def h():\n    return jax.pmap(f, in_axes=1)\n", f"{NAME}[specs, cached]"),
        # The whole: axes without a hash, options of other kinds, names known only at run time.
        ("g = jax.pmap(f, in_axes=({'a': 0, 'b': None},))\n", WHOLE),
        ("g = jax.pmap(f, static_broadcasted_argnums=1)\n", WHOLE),
        ("g = jax.pmap(f, devices=jax.devices()[:2])\n", WHOLE),
        ("def h(name):\n    return jax.pmap(f, axis_name=name)\n", WHOLE),
        ("g = jax.pmap(jax.pmap(f, 'i'), 'j')\n", WHOLE),
        # A lambda that is mapped once may be remembered.
        ("p = jax.pmap(lambda x: x)\ndef h():\n    return jax.pmap(f)\n", f"{NAME}[plain, cached]"),
        # One that must be remembered, and one that must not.
        ("p = [jax.pmap(lambda x: n) for n in N]\ndef h():\n    return jax.pmap(f)\n", WHOLE),
        ("def h():\n    return jax.pmap(f), jax.pmap(lambda x: x)\n", WHOLE),
        ("def h(self):\n    return jax.pmap(f), jax.pmap(self.f)\n", WHOLE),
    ],
)
def test_the_smallest_text_that_serves(site: str, variant: str) -> None:
    after, _ = migrated({"main.py": HEAD + site})
    assert chosen(after["main.py"]) == variant


def test_a_package_has_one_text_that_serves_all_its_files() -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": f"{HEAD}g = jax.pmap(f)\n",
        "p/b.py": f"{HEAD}g = jax.pmap(f, in_axes=1)\n",
    }
    after, _ = migrated(files)
    assert chosen(after["p/_per_device.py"]) == SPECS
    assert f"from p._per_device import {NAME}\n" in after["p/a.py"]


@pytest.mark.parametrize("lone", [True, False])
def test_a_later_site_that_needs_more_gets_it(lone: bool) -> None:
    path = "main.py" if lone else "p/main.py"
    home = path if lone else "p/_per_device.py"
    files = {path: f"{HEAD}g = jax.pmap(f)\n"} | ({} if lone else {"p/__init__.py": ""})
    after, _ = migrated(files)
    assert chosen(after[home]) == PLAIN
    for site, variant in (("in_axes=1", SPECS), ("static_broadcasted_argnums=1", WHOLE)):
        after[path] += f"h = jax.pmap(f, {site})\n"
        after, result = migrated(after)
        assert chosen(after[home]) == variant
        assert after[home].count(f"def {NAME}(") == 1
        assert not any(file.refused for file in result.files)
        compile(after[home], home, "exec")


def test_a_text_that_was_changed_by_hand_is_left_alone() -> None:
    after, _ = migrated({"main.py": f"{HEAD}g = jax.pmap(f)\n"})
    mine = after["main.py"].replace("(axis_name,))", "(axis_name,))  # mine")
    again, missing, _ = extended(mine, [WHOLE])
    assert again == mine
    assert NAME not in {helper.name for helper in missing}


def test_what_needs_the_whole_gets_the_whole() -> None:
    for names in ([PLAIN, WHOLE], [f"{NAME}[plain, any]", "jit_per_device"]):
        texts = {helper.name: helper.source for helper in required(names)}
        assert texts[NAME] == TEXTS[WHOLE]
