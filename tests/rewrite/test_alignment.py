"""Lines that are aligned with the first argument of a call, when its name changes."""

from __future__ import annotations

import pytest

from shardlift.rewrite.goal import Goal
from shardlift.source.settings import Settings
from tests.rewrite.steps import migrated

NAMES = "tree_map", "tree_util.tree_map"


def test_a_line_that_would_be_too_long_is_broken() -> None:
    short = "\n".join(
        f"x{k} = 'a line of a file that is at most 80 columns wide'" for k in range(9)
    )
    line = "all_gradients = jax.{}(lambda a: a / a.sum(), some_other_gradients{}"
    text = f"import jax\n{short}\n{{}}\n"
    old = Settings(oldest=(0, 4, 1))
    before = text.format(line.format("tree_map", "_of_a_step)"))
    broken = "all_gradients = jax.tree_util.tree_map(\n    lambda a: a / a.sum(), {}\n)"
    assert migrated(before, settings=old) == text.format(
        broken.format("some_other_gradients_of_a_step")
    )
    assert migrated(before, settings=Settings()) == before.replace("tree_map", "tree.map")
    longer = text.format(line.format("tree_map", "_of_a_step) / 2"))
    assert "\n    lambda" not in migrated(longer, settings=old)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # An argument on a line of its own.
        (
            "f(\n    target_parameters=jax.{}(lambda x: jnp.copy(x), the_parameters_of_it),\n)",
            "f(\n    target_parameters=jax.{}(\n"
            "        lambda x: jnp.copy(x), the_parameters_of_it\n    ),\n)",
        ),
        # Lines that are aligned with the first argument.
        (
            f"x = jax.{{}}(f, {'a' * 60},\n{' ' * 17}b)  # c",
            f"x = jax.{{}}(\n    f, {'a' * 60},\n    b)  # c",
        ),
        # Nothing makes it short enough, or its end is no call.
        (f"x = jax.{{}}({'a' * 78})", f"x = jax.{{}}({'a' * 78})"),
        (f"x = jax.{{}}({'a' * 50}, b)  # because", f"x = jax.{{}}({'a' * 50}, b)  # because"),
    ],
)
def test_other_lines_that_would_be_too_long(before: str, after: str) -> None:
    texts = (f"import jax\n{text}\n" for text in (before, after))
    short, long = (text.format(name) for text, name in zip(texts, NAMES, strict=True))
    assert migrated(short, settings=Settings(oldest=(0, 4, 1))) == long


def test_arguments_that_do_not_fit_on_one_line() -> None:
    step = "import jax\nimport numpy as np\n\n\np_step = jax.pmap(step)\nparams_repl = p_step(x)\n"
    read = "params_repl = jax.tree.map(lambda x: np.array(x[0]), params_repl)\n"
    new = "lambda x: np.array(x.addressable_shards[0].data.squeeze(0))"
    assert migrated(f"{step}{read}", Goal.FIX) == (
        f"{step}params_repl = jax.tree.map(\n    {new}, params_repl\n)\n"
    )
    deep, margin = "if a:\n    if b:\n        if c:\n", " " * 12
    long = f"{margin}{read}".replace("params_repl", "params_repl_all")
    assert migrated(f"{step}params_repl_all = p_step(x)\n{deep}{long}", Goal.FIX).endswith(
        f"{margin}params_repl_all = jax.tree.map(\n{margin}    {new},\n"
        f"{margin}    params_repl_all,\n{margin})\n"
    )


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
