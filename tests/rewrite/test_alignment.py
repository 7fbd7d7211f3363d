"""Lines that are aligned with the first argument of a call, when its name changes."""

from __future__ import annotations

import pytest

from tests.rewrite.steps import migrated


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "d = jax.tree_util.tree_multimap(f,\n                                a,\n"
            "                                g(b,\n                                  c))\n",
            "d = jax.tree_util.tree_map(f,\n                           a,\n"
            "                           g(b,\n                             c))\n",
        ),
        # Aligned with nothing that moves.
        (
            "d = jax.tree_multimap(\n                                f, a)\n",
            "d = jax.tree.map(\n                                f, a)\n",
        ),
        ("d = jax.tree_multimap(f,\n    a)\n", "d = jax.tree.map(f,\n    a)\n"),
        (
            "d = jax.tree_multimap(f, '''\n                         a''')\n",
            "d = jax.tree.map(f, '''\n                         a''')\n",
        ),
        # The line below has an edit of its own.
        (
            "d = jax.tree_multimap(jax.tree_multimap,\n"
            "                      jax.tree_multimap(a, b))\n",
            "d = jax.tree.map(jax.tree.map,\n                 jax.tree.map(a, b))\n",
        ),
    ],
)
def test_lines_of_a_call(before: str, after: str) -> None:
    assert migrated(f"import jax\n\n{before}") == f"import jax\n\n{after}"


def test_a_helper_in_the_place_of_a_function_of_jax() -> None:
    put = "x = jax.device_put_sharded(xs,\n                           devices)\n"
    after = migrated(f"import jax\n\n\n{put}")
    assert after.endswith("x = device_put_sharded(xs,\n                       devices)\n")
