"""Lines that are aligned with the first argument of a call, when its name changes."""

import pytest

from shardlift.source.settings import Settings
from tests.rewrite.steps import migrated

LONG = f"f({'a' * 47})"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"all_gradients = jax.tree_map({LONG}, b)",
         f"all_gradients = jax.{{}}(\n    {LONG}, b\n)"),
        # An argument on a line of its own.
        (f"f(\n    some_gradients=jax.tree_map({LONG}),\n)",
         f"f(\n    some_gradients=jax.{{}}(\n        {LONG}\n    ),\n)"),
        # All arguments of a call, on one line.
        (f"f(\n    jax.tree_map({LONG}), bcdefghijk\n)",
         f"f(\n    jax.{{}}({LONG}),\n    bcdefghijk,\n)"),
        # Arguments that fit on one line, and others that do not.
        (f"abc = def_(jax.tree_map({LONG}, 'e'), 'f')",
         f"abc = def_(\n    jax.{{}}({LONG}, 'e'), 'f'\n)"),
        (f"ab = d(jax.tree_map({LONG}, '('), *g, h=1)",
         f"ab = d(\n    jax.{{}}({LONG}, '('),\n    *g,\n    h=1,\n)"),
        # What follows a bracket.
        (f"for abcdef in jax.tree_map({LONG}):\n    pass",
         f"for abcdef in jax.{{}}(\n    {LONG}\n):\n    pass"),
        (f"abcdefghij = jax.tree_map({LONG})[0]", f"abcdefghij = jax.{{}}(\n    {LONG}\n)[0]"),
        (f"def some(x=jax.tree_map({LONG})) -> int:\n    pass",
         f"def some(\n    x=jax.{{}}({LONG})\n) -> int:\n    pass"),
        # Two names on one line, each of which would fit.
        (f"f(jax.tree_map(a), jax.tree_map(b), {'c' * 32})",
         f"f(\n    jax.{{0}}(a),\n    jax.{{0}}(b),\n    {'c' * 32},\n)"),
        # A comprehension.
        (f"f(\n    (abcdefghi for b in jax.tree_map({'c' * 47})),\n    d,\n)",
         f"f(\n    (\n        abcdefghi\n        for b in jax.{{}}({'c' * 47})\n    ),\n    d,\n)"),
        # As Google has it.
        (f"def g():\n  gradient = jax.tree_map({'a' * 45}, b)",
         f"def g():\n  gradient = jax.{{}}(\n      {'a' * 45}, b)"),
        # It does not end with a call.
        (f"x = jax.tree_map({LONG}, b)  # because", f"x = jax.{{}}({LONG}, b)  # because"),
        (f"some_x = jax.tree_map({LONG}, b) / 2", f"some_x = jax.{{}}({LONG}, b) / 2"),
    ],
)  # fmt: skip
def test_a_line_that_would_be_too_long_is_broken(before: str, after: str) -> None:
    text = migrated(f"import jax\n{before}\n", settings=Settings(oldest=(0, 4, 1)))
    assert text == f"import jax\n{after.format('tree_util.tree_map')}\n"


def test_strings_do_not_say_how_long_lines_may_be() -> None:
    text = f"import jax\nxs = [\n{3 * ('    ' + repr('a' * 96) + chr(10))}]\n"
    line = f"abcd = jax.{{}}({LONG}, bcdefghijk)\n"
    after = migrated(text + line.format("tree_map"), settings=Settings(oldest=(0, 4, 1)))
    assert after == f"{text}abcd = jax.tree_util.tree_map(\n    {LONG}, bcdefghijk\n)\n"


def test_the_lines_of_a_call_that_becomes_one_are_broken() -> None:
    call = "  {0} = jax.ops.index_update(\n      {0}, jax.ops.index[0], -jnp.inf)\n"
    text = f"import jax\ndef f():\n{call.format('x' * 31)}"
    name = "x" * 31
    broken = f"  {name} = {name}.at[0].set(\n      -jnp.inf)\n"
    assert migrated(text) == f"def f():\n{broken}"


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
