"""Reading the first row: where it is left alone, and what takes its place."""

from __future__ import annotations

import pytest

from shardlift.migrate.output_reads import rewrite
from shardlift.migrate.rewrite import Goal
from tests.migrate.steps import migrated, results, rewritten

STEP = (
    "import jax\ndef step(s, b):\n    return s, jax.lax.pmean(b / 2, 'i')\n"
    "p = jax.pmap(step, 'i')\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "import jax\nshapes = jax.tree.map(lambda v: v[0], batch)\n",
        "import jax\nf = jax.jit(g)\nm = jax.tree.map(lambda v: v[0], f(x))\n",
        "import jax\nf = jax.pmap(g)\nm = jax.tree.map(lambda v: v[1], f(x))\n",
        "import jax\nf = jax.pmap(g)\nm = jax.tree.map(lambda v: v.mean(), f(x))\n",
        "import jax\nf = jax.pmap(g)\nm = jax.tree.map(lambda v, w: v[0], f(x), y)\n",
        "import jax\nf = jax.pmap(g)\nm = jax.tree.map(lambda v: v[0], f(x), is_leaf=h)\n",
        "import jax\nf = jax.pmap(g)\nm = jax.device_get(f(x))\n"
        "m = jax.tree.map(lambda v: v[0], m)\n",
        "import jax\nf = jax.pmap(g)\nout = f(x)\nprint(out[0])\n",  # may be a tuple
        STEP + "s, loss = p(s, b)\nprint(loss[1])\n",
        STEP + "s, loss = p(s, b)\nprint(loss[0:1])\n",
        STEP + "s = p(s, b)[0]\n",
        "import jax\ndef pick(tree):\n    return jax.tree.map(lambda v: v[0], tree)\n",
        "import jax\ndef first(rows):\n    return sorted(rows, key=lambda v: v[0])\n",
        "from mylib import unreplicate\ns = unreplicate(s)\n",
        "import jax\ndef get_first(t):\n    return jax.tree.map(lambda v: v[0], t)\n",
        "import jax  # pmap\ndef get_first_row(t):\n    return jax.tree.map(lambda v: v[0], t)\n",
        "pairs.sort(key=lambda v: v[0])\n",
        "import jax\nf = jax.pmap(lambda v: jax.lax.pmean(v, 'i'), 'i', out_axes=None)\n"
        "y = f(x)\nprint(y[0])\n",
        "import jax\ndef first_replica(t):\n    return jax.tree.map(lambda v: v[0], t)\n",
    ],
)
def test_left_alone(text: str) -> None:
    assert not results(rewrite, text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            STEP + "s, m = p(s, b)\nm = jax.tree_map(lambda v: v[0], m)\n",
            STEP + "s, m = p(s, b)\nm = first_replica(m)\n",
        ),
        (
            STEP + "s, m = p(s, b)\nm = jax.device_get(jax.tree.map(lambda v: v[0], m))\n",
            STEP + "s, m = p(s, b)\nm = jax.device_get(unreplicate(m))\n",
        ),
        (
            STEP + "s, m = p(s, b)\nm = jax.tree_util.tree_map(\n    lambda v: v[0],\n    m,\n)\n",
            STEP + "s, m = p(s, b)\nm = first_replica(m)\n",
        ),
        (
            STEP + "s, l = p(s, b)\nprint(f'{l[0]:.3f}', l[0].item(), float(l[0]))\n",
            STEP + "s, l = p(s, b)\n"
            "print(f'{unreplicate(l):.3f}', unreplicate(l).item(), float(unreplicate(l)))\n",
        ),
        (
            STEP + "s, loss = p(s, b)\ntotal += loss[0]\n",
            STEP + "s, loss = p(s, b)\ntotal += first_replica(loss)\n",
        ),
        (
            STEP + "s, m = p(s, b)\nloss = m['loss'][0] + 1\nx = p(s, b)[1]  # [0]\n",
            STEP + "s, m = p(s, b)\nloss = m['loss'][0] + 1\nx = p(s, b)[1]  # [0]\n",
        ),
        (
            "import jax\ndef get_first(xs):\n    '''One device.'''\n"
            "    return jax.tree_util.tree_map(lambda x: x[0], xs)\n",
            "import jax\ndef get_first(xs):\n    '''One device.'''\n    return first_replica(xs)\n",
        ),
        (
            "import jax\nunreplicate_all = lambda t: jax.tree.map(lambda x: x[0], t)\n",
            "import jax\nunreplicate_all = lambda t: first_replica(t)\n",
        ),
        (
            "import jax\ndef unreplicate(t):\n    return jax.tree_map(lambda x: x[0], t)\n",
            "import jax\ndef unreplicate(t):\n    return first_replica(t)\n",
        ),
    ],
)
def test_rewritten(before: str, after: str) -> None:
    assert rewritten(rewrite, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (STEP + "s, loss = p(s, b)\nprint(loss[0])\n", None),
        ("import jax\ndef get_first(t):\n    return jax.tree.map(lambda x: x[0], t)\n", None),
    ],
)
def test_the_shim_changes_what_breaks(before: str, after: str | None) -> None:
    assert rewritten(rewrite, before, Goal.SHIM) == (after or before)


def test_what_is_given_is_rewritten_too() -> None:
    text = (
        "import jax\nfrom flax import jax_utils\n"
        "def get_first(t):\n    return jax.tree_map(lambda x: x[0], t)\n"
        "p = jax.pmap(lambda x: x * 2)\n"
        "y = jax.device_get(jax.tree_map(lambda x: x[0], p(jax_utils.replicate(x))))\n"
    )
    after = migrated(text)
    assert "y = jax.device_get(unreplicate(p(replicate(x))))\n" in after
    assert "flax" not in after
    assert migrated(after) == after
