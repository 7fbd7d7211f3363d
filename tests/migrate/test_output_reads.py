"""Reading the first row: where it is left alone, and what takes its place."""

from __future__ import annotations

import pytest

from shardlift.migrate.goal import Goal
from shardlift.migrate.output_reads import rewrite
from shardlift.source.project import Project
from shardlift.source.settings import Settings
from shardlift.source.text import Source
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
        # Its value stays on all devices.
        STEP + "s, m = p(s, b)\nm = jax.tree.map(lambda v: v[0], m)\n",
        STEP + "s, loss = p(s, b)\ntotal += loss[0]\n",
        "import jax\nf = jax.pmap(lambda x: x / 2)\nout = f(x)\ny = out[0].shape\n",
        "import jax  # pmap\ndef unreplicate(t):\n    return jax.tree.map(lambda v: v[0], t)\n",
    ],
)
def test_left_alone(text: str) -> None:
    assert not results(rewrite, text)


HALF = "import jax\nf = jax.pmap(lambda x: x / 2)\n"
BOTH = f"{HALF}g = jax.pmap(lambda x: (x, x / 2))\n"


@pytest.mark.parametrize(
    "text",
    [
        # A tuple, or what may be one.
        "import jax\nf = jax.pmap(lambda x: (x, x / 2))\nout = f(x)\nprint(np.asarray(out[0]))\n",
        "import jax\nf = jax.pmap(lambda x: x)\nprint(f(x)[0])\n",
        "import jax\nf = jax.pmap(lambda x: x * 2)\nprint(f(x)[0])\n",
        "import jax\nf = jax.pmap(lambda x, y: x + y)\nprint(f(x, y)[0])\n",
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean(x, 'i'), 'i')\nprint(f(x)[0])\n",
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean((x / 2, x), 'i'), 'i')\nprint(f(x)[0])\n",
        "import jax\nf = jax.pmap(lambda x: (x / 2,) + (x,))\nprint(f(x)[0])\n",
        "import jax\nf = jax.pmap(lambda x: jax.numpy.linalg.slogdet(x))\nprint(f(x)[0])\n",
        "import jax\nf = jax.pmap(lambda x: x.mean())\nprint(f(x)[0])\n",
        "import jax\nf = jax.pmap(jax.value_and_grad(loss))\nprint(f(x)[0])\n",
        "import jax\ndef g(x):\n    if c:\n        return x / 2\n    return x / 2, x\n"
        "f = jax.pmap(g)\nprint(f(x)[0])\n",
        # What reads an element of a tuple as well as a row.
        "import jax\nf = jax.pmap(g)\nout = f(x)\nprint(np.asarray(out[0]), out[0].shape)\n",
        "import jax\nf = jax.pmap(g)\nout = f(x)\nprint(jax.device_get(out[0]), out[0].dtype)\n",
        "import jax\nf = jax.pmap(g)\nout = f(x)\nprint(out[0].item(), f'{out[0]}')\n",
        "import jax\nf = jax.pmap(g)\nout = f(x)\nprint(f'{out[0]!r:>9}', f'{out[0]:{w}}')\n",
        "import equinox\nf = equinox.filter_pmap(g)\nout = f(x)\nprint(float(out[0]))\n",
        "import objax\nf = objax.Parallel(lambda x: x / 2)\nprint(f(x)[0])\n",
        # An output, or something else.
        f"{BOTH}out = g(x)\ntry:\n    out = f(x)\nexcept E:\n    pass\nprint(out[0])\n",
        f"{BOTH}out = f(x)\nfor k in y:\n    print(out[0])\n    out = g(x)\n",
        f"{BOTH}out = g(x)\ndef show():\n    print(out[0])\nshow()\nout = f(x)\n",
        f"{BOTH}*a, b = g(x), f(x)\nprint(a[0])\n",
        f"{BOTH}a, *b = f(x)\nprint(a[0], b[0])\n",
        f"{BOTH}out = f(x)\ndef change():\n    global out\n    out = g(x)\nprint(out[0])\n",
        f"{HALF}out = f(x) if c else y\nprint(out[0])\n",
        f"{HALF}out = f(x)\nout = wrap(out)\nprint(out[0])\n",
        f"{HALF}out = f(x)\nout += y,\nprint(out[0])\n",
        f"{HALF}for out in (f(x), y):\n    print(out[0])\n",
        f"{HALF}if c:\n    f = h\nout = f(x)\nprint(out[0])\n",
        "import jax\n@other\n@jax.pmap\ndef f(x):\n    return x / 2\nprint(f(x)[0])\n",
        "import jax\n@jax.pmap\n@other\ndef f(x):\n    return x / 2\nprint(f(x)[0])\n",
        "import jax\n@jax.pmap\ndef f(x):\n    yield x / 2\n    return x / 2\nprint(f(x)[0])\n",
        "import jax\nf = jax.pmap(lambda x: {'a': x / 2})\nm = f(x)\nm['a'] = y\n"
        "print(m['a'][0])\n",
        "import jax\nf = jax.pmap(lambda x: {'a': x / 2})\nm = f(x)\nm.update(y)\n"
        "print(m['a'][0])\n",
        "import jax\nf = jax.pmap(lambda x: [x / 2])\nm = f(x)\nm[0] = y\nprint(m[0][0])\n",
        "import jax\nf = jax.pmap(lambda x: x / 2, **options)\nprint(f(x)[0])\n",
        "import jax\nf = jax.pmap(lambda x: x / 2, out_axes=1)\nprint(f(x)[0])\n",
        "import jax\nclass A:\n    def __init__(self):\n        self.p = jax.pmap(self.step)\n"
        "    def step(self, x):\n        return x / 2\n    def run(self):\n"
        "        print(self.p(x)[0])\nclass B(A):\n    def step(self, x):\n        return x, x\n",
        f"{HALF}@other\ndef get():\n    return f(x), f(x)\na, b = get()\nprint(a[0])\n",
        f"{HALF}@other\ndef get():\n    return f(x)\nprint(get()[0])\n",
        f"{HALF}def get():\n    yield 1\n    return f(x)\nprint(get()[0])\n",
        "import jax\n@other\ndef make():\n    return jax.pmap(lambda x: x / 2)\n"
        "f = make()\nprint(f(x)[0])\n",
        # No tree map of the first row.
        "import jax\nf = jax.pmap(g)\ndef h(y):\n    return jax.tree.map(lambda v: y[0], f(x))\n",
        "import jax\nf = jax.pmap(g)\nm = jax.tree.map(lambda v, w=y: w[0], f(x))\n",
        "import jax\nf = jax.pmap(g)\ndef first(v):\n    print(v)\n    return v[0]\n"
        "m = jax.tree.map(first, f(x))\n",
    ],
)
def test_left_alone_without_a_proof(text: str) -> None:
    assert not results(rewrite, text)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        (f"{HALF}print(f(x)[0])\n", "unreplicate(f(x))"),
        ("import jax\nf = jax.pmap(g)\nout = f(x)\nfloat(out[0])\n", "float(unreplicate(out))"),
        ("import jax\nf = jax.pmap(g)\nout = f(x)\nf'{out[0]:.2f}'\n", "{unreplicate(out):.2f}"),
        ("import jax\nf = jax.pmap(lambda x: (x / 2, x))\nprint(f(x)[0][0])\n",
         "print(unreplicate(f(x)[0]))"),
        ("import jax\nf = jax.pmap(lambda x: {'a': x / 2})\nm = f(x)\nm['b'] = 1\n"
         "print(m['a'][0])\n",
         "print(unreplicate(m['a']))"),
        ("import jax\nimport numpy as np\nf = jax.pmap(lambda x: x * 2)\nprint(f(np.ones(8))[0])\n",
         "print(unreplicate(f(np.ones(8))))"),
        ("import jax\ndef step(s, b):\n    loss, g = jax.value_and_grad(h)(s, b)\n"
         "    m = {'loss': loss}\n    m = jax.lax.pmean(m, 'i')\n    return s, m\n"
         "p = jax.pmap(step, 'i')\nfor b in data:\n    s, m = p(s, b)\n    print(m['loss'][0])\n",
         "print(unreplicate(m['loss']))"),
        ("import jax\n@jax.pmap\n@jax.jit\ndef f(x):\n    return x / 2\nprint(f(x)[0])\n",
         "print(unreplicate(f(x)))"),
        (f"{HALF}def get():\n    return f(x), f(x)\na, b = get()\nprint(a[0])\n",
         "print(unreplicate(a))"),
        ("import jax\ndef make():\n    return jax.pmap(lambda x: x / 2)\n"
         "f = make()\nprint(f(x)[0])\n", "print(unreplicate(f(x)))"),
        (f"{HALF}out = None\ntry:\n    out = f(x)\nexcept E:\n    raise\nprint(out[0])\n",
         "print(unreplicate(out))"),
    ],
)  # fmt: skip
def test_rewritten_with_a_proof(text: str, reads: str) -> None:
    assert reads in rewritten(rewrite, text)


def test_a_function_of_another_file() -> None:
    use = "import jax\nfrom steps import one, two\nf, g = jax.pmap(one), jax.pmap(two)\n"
    files = {
        "use.py": f"{use}print(f(x)[0], g(x)[0])\n",
        "steps.py": "import jax\ndef one(x):\n    return x / 2\ndef two(x):\n    return x, x\n"
        "p = jax.pmap(one)\n",
    }
    file = Project.of(*(Source(path, text) for path, text in files.items())).file("use.py")
    (read,) = rewrite(file, Goal.SHARD_MAP)
    assert file.text(read.node) == "f(x)[0]"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            STEP + "s, m = p(s, b)\nm = jax.device_get(jax.tree.map(lambda v: v[0], m))\n",
            STEP + "s, m = p(s, b)\nm = jax.device_get(unreplicate(m))\n",
        ),
        (
            STEP
            + "s, m = p(s, b)\nprint(jax.tree_util.tree_map(\n    lambda v: v[0],\n    m,\n))\n",
            STEP + "s, m = p(s, b)\nprint(unreplicate(m))\n",
        ),
        (
            STEP + "s, l = p(s, b)\nprint(f'{l[0]:.3f}', l[0].item(), float(l[0]))\n",
            STEP + "s, l = p(s, b)\n"
            "print(f'{unreplicate(l):.3f}', unreplicate(l).item(), float(unreplicate(l)))\n",
        ),
        (
            STEP + "s, m = p(s, b)\nloss = m['loss'][0] + 1\nx = p(s, b)[1]  # [0]\n",
            STEP + "s, m = p(s, b)\nloss = m['loss'][0] + 1\nx = p(s, b)[1]  # [0]\n",
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


def test_flax_s_function_of_the_same_name_stays() -> None:
    text = (
        f"{STEP}from flax.jax_utils import unreplicate\n"
        "s, loss = p(s, b)\nsave(unreplicate(s))\nprint(loss[0].item())\n"
    )
    after = migrated(text, settings=Settings((0, 12), (0, 12, 12)))
    assert "spmd_map(step, 'i')" in after
    assert after.endswith("save(unreplicate(s))\nprint(loss[0].item())\n")
