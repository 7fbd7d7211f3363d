"""Reading the first row: where it is left alone, and what takes its place.

What the rewritten programs print is compared in `test_reading.py`.
"""

import pytest

from shardlift.check.engine import RuleSelection, check_file
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.output_reads import rewrite
from shardlift.source.project import Project
from shardlift.source.settings import Settings
from shardlift.source.text import Source
from tests.rewrite.steps import migrated, refused, results, rewritten

STEP = (
    "import jax\ndef step(s, b):\n    return s, jax.lax.pmean(b / 2, 'i')\n"
    "p = jax.pmap(step, 'i')\n"
)
SHARD = ".addressable_shards[0].data.squeeze(0)"
G = "import jax\nimport numpy as np\nf = jax.pmap(g)\nout = f(x)\n"  # anything
A = G.replace("g)", "lambda v: v / 2)")  # arrays


@pytest.mark.parametrize(
    "text",
    [
        "import jax\nf = jax.jit(g)\nprint(f(x)[0], jax.tree.map(lambda v: v[0], f(x)))\n",
        f"{G}print(jax.tree.map(lambda v: v[1], out), jax.tree.map(lambda v: v.mean(), out))\n",
        f"{G}print(jax.tree.map(lambda v, w: v[0], out, y))\n",
        f"{G}print(jax.tree.map(lambda v: v[0], out, is_leaf=h))\n",
        f"{G}pair = [out]\npair += [y]\nprint(jax.tree.map(lambda v: v[0], pair))\n",
        f"{G}m = jax.device_get(out)\nprint(jax.tree.map(lambda v: v[0], m), m[0])\n",
        f"{G}print(out[1], out[0:1], out[False], out[i], out[-1])\n",
        "import jax\ndef first(rows):\n    return sorted(rows, key=lambda v: v[0])\n",
        # Another axis than the devices', or none.
        "import jax\nf = jax.pmap(g, out_axes=None)\nprint(f(x)[0])\n",
        "import objax\nf = objax.Parallel(lambda x: x / 2)\nprint(f(x)[0])\n",
        # Its value may be needed on all devices.
        f"{G}m = jax.tree.map(lambda v: v[0], out)\n",
        f"{G}total += out[0]\ny = out[0].shape\nh(out[0])\n",
        "import jax  # pmap\ndef get_first(t):\n    return jax.tree.map(lambda v: v[0], t)\n",
        # An element of a tuple, and never a row.
        "import jax\nf = jax.pmap(lambda x: (x, x / 2))\nout = f(x)\nprint(out[0])\n",
        "import jax\nf = jax.pmap(lambda x: [x, (x, x)])\nout = f(x)\nprint(out[0], out[1][0])\n",
        "import jax\nf = jax.pmap(lambda x: jax.lax.pmean((x, x), 'i'), 'i')\nprint(f(x)[0])\n",
        f"{STEP}print(p(s, b)[0])\n",
        # It may be one, and nothing shows that it is slow to read.
        f"{G}print(out[0], f'{{out[0]}}', out.b[0])\nnp.asarray(out[0])\n",
        f"{A}out = f(x) if c else y\nprint(out[0])\n",
        # No tree map of the first row.
        f"{G}def h(y):\n    print(jax.tree.map(lambda v: y[0], out))\n",
        f"{G}print(jax.tree.map(lambda v, w=y: w[0], out))\n",
        f"{G}def first(v):\n    print(v)\n    return v[0]\nprint(jax.tree.map(first, out))\n",
    ],
)
def test_left_alone(text: str) -> None:
    assert not results(rewrite, text)


def test_reads_of_a_test_are_left_alone() -> None:
    text = f"{A}print(float(out[0]), float(jax.tree.map(lambda v: v[0], out)))\n"
    texts = {"main.py": text, "main_test.py": text}
    read = {path: text.encode() for path in texts}.__getitem__
    done = migrate([*texts], read, texts.__contains__, Goal.FIX)
    assert [file.path for file in done.changed if file.before] == ["main.py"]
    project = Project.of(*(Source(path, text) for path, text in texts.items()))
    checked = [check_file(project, path, text.encode(), RuleSelection()) for path in texts]
    codes = [{finding.code for finding in report.findings} for report in checked]
    assert codes == [{"SL201", "SL401", "SL402"}, {"SL201"}]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{G}float(out[0])", "float(jax.device_get(out)[0])"),
        (f"{A}print(out[0], out[0].item())",
         "print(jax.device_get(out)[0], jax.device_get(out)[0].item())"),
        (f"{A}np.asarray(f(x)[0])", "np.asarray(first_row(f(x)))"),
        (f"{A}f'{{out[0]:.2f}} {{out[0]!r}}'",
         "f'{jax.device_get(out)[0]:.2f} {first_row(out)!r}'"),
        (f"{A}f'out[0]={{out[0]}}'", "f'out[0]={jax.device_get(out)[0]}'"),
        (f"{A}print((out)[0], out [ 0 ])", "print(jax.device_get(out)[0], jax.device_get(out)[0])"),
        (f"{G}print(out['a'][0].item(), int(out.b[0]))",
         "print(jax.device_get(out['a'])[0].item(), int(jax.device_get(out.b)[0]))"),
        (f"{STEP}s, m = p(s, b)\nprint(m[0], p(s, b)[1][0])",
         "print(jax.device_get(m)[0], jax.device_get(p(s, b)[1])[0])"),
        (f"{A}out = f(x) if c else y\nm = out[0].item()", "m = jax.device_get(out)[0].item()"),
        (f"{G}jax.device_get(jax.tree.map(lambda v: v[0], out))",
         f"jax.device_get(jax.tree.map(lambda v: v{SHARD}, out))"),
        (f"{G}out = out if c else y\njax.device_get(jax.tree.map(lambda v: v[0], out))",
         "jax.device_get(jax.tree.map(first_row, out))"),
        (f"from flax.jax_utils import replicate as r\n{G}print(jax.tree.map(lambda v: v[0], r(x)))",
         f"print(jax.tree.map(lambda v: v{SHARD}, r(x)))"),
        (f"def first(t):\n    return jax.tree.map(lambda v: v[0], t)\n{G}m = first(out)",
         f"return jax.tree.map(first_row, t)\n{G}m = first(out)"),
        (f"def first(t):\n    return jax.tree.map(lambda v:jax.device_get(v[0]), t)\n{G}first(out)",
         f"return jax.tree.map(lambda v:jax.device_get(first_row(v)), t)\n{G}first(out)"),
        (f"{G}pair = out, f(y)\nprint(jax.tree.map(lambda v: v[0], {{'a': pair, 'b': [out]}}))",
         f"print(jax.tree.map(lambda v: v{SHARD}, {{'a': pair, 'b': [out]}}))"),
        (f"{G}y = f(y)\nout, y = jax.tree.map(lambda v: v[0], (out, y))",
         f"out, y = jax.tree.map(lambda v: v{SHARD}, (out, y))"),
        (f"{G}print(jax.tree.map(lambda v: v[0], out), jax.tree.map(lambda v: v[0], (out, y)))",
         "print(jax.tree.map(first_row, out), jax.tree.map(first_row, (out, y)))"),
        (f"{G}first = lambda t: jax.tree.map(lambda v: v[0], t)\nz = first(out)",
         "first = lambda t: jax.tree.map(first_row, t)\nz = first(out)"),
        (f"{G}print(jax.tree.map(\n    lambda v: v[0],  # one\n    out,\n))",
         f"print(jax.tree.map(\n    lambda v: v{SHARD},  # one\n    out,\n))"),
        (f"{A}logging.info('%g', out[0])\nlogger(1, out[0])",
         "logging.info('%g', jax.device_get(out)[0])\nlogger(1, jax.device_get(out)[0])"),
    ],
)  # fmt: skip
def test_rewritten(before: str, after: str) -> None:
    assert rewritten(rewrite, before).endswith(after)
    assert rewritten(rewrite, before, Goal.FIX).endswith(after)
    assert not rewritten(rewrite, before, Goal.SHIM).endswith(after)


def test_a_name_that_is_taken_is_left() -> None:
    assert refused(rewrite, f"{A}first_row = 3\nnp.asarray(out[0])\n") == [
        "the file has a `first_row` of its own"
    ]


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


def test_what_is_given_is_rewritten_too() -> None:
    text = (
        "import jax\nfrom flax import jax_utils\n"
        "def get_first(t):\n    return jax.tree_map(lambda x: x[0], t)\n"
        "p = jax.pmap(lambda x: x * 2)\n"
        "y = jax.device_get(jax.tree_map(lambda x: x[0], p(jax_utils.replicate(x))))\n"
    )
    after = migrated(text)
    assert f"y = jax.device_get(jax.tree.map(lambda x: x{SHARD}, p(replicate(x))))\n" in after
    assert "flax" not in after
    assert migrated(after) == after


MANY = f"({'out, ' * 16}out)"


@pytest.mark.parametrize(
    ("imported", "before", "after"),
    [
        ("jax_utils", "jax.tree.map(lambda v: np.array(v[0]), out)",
         "jax.tree.map(np.array, jax_utils.unreplicate(out))"),
        ("jax_utils", "jax.tree.map(lambda v: v[0], out)", "jax_utils.unreplicate(out)"),
        ("jax_utils", "jax.tree.map(\n    lambda v: v[0], out\n)", "jax_utils.unreplicate(out)"),
        ("jax_utils", f"jax.tree.map(\n    lambda v: v[0], {MANY}\n)",
         f"jax_utils.unreplicate(\n    {MANY}\n)"),
        # Each device may have another row: who does not call it a replica is not made to.
        ("linen", "jax.tree.map(lambda v: v[0], out)", "jax.tree.map(lambda v: v[0], out)"),
        ("linen", "jax.device_get(jax.tree.map(lambda v: v[0], out))",
         f"jax.device_get(jax.tree.map(lambda v: v{SHARD}, out))"),
    ],
)  # fmt: skip
def test_trees_where_flax_is_imported(imported: str, before: str, after: str) -> None:
    before, after = (f"from flax import {imported}\n{G}m = {m}\n" for m in (before, after))
    assert migrated(before, Goal.FIX, Settings()) == after
    assert migrated(after, Goal.FIX, Settings()) == after


def test_flax_s_unreplicate_stays_beside_it() -> None:
    text = (
        f"{STEP}from flax.jax_utils import unreplicate\n"
        "s, loss = p(s, b)\nsave(unreplicate(s))\nprint(loss[0].item())\n"
    )
    after = migrated(text, settings=Settings((0, 12), (0, 12, 12)))
    assert after.endswith("save(unreplicate(s))\nprint(jax.device_get(loss)[0].item())\n")


def test_a_file_that_imports_flax_reads_by_it() -> None:
    text = (
        "import jax\nfrom flax import jax_utils\np = jax.pmap(step)\n"
        "def save(state, folder):\n"
        "    state = jax.device_get({})\n    jax_utils.save(state, folder)\n"
    )
    before = text.format("jax.tree_util.tree_map(lambda x: x[0], state.params)")
    after = text.format("jax_utils.unreplicate(state.params)")
    assert migrated(before, Goal.FIX, Settings()) == after
    assert "first_row" in migrated(before, Goal.FIX)  # with an old flax


def test_a_file_that_gets_flax_s_helpers_reads_by_them() -> None:
    text = f"from flax import linen\n{G}r = jax.device_put_replicated(y, d)\n"
    after = migrated(f"{text}m = jax.tree_map(lambda v: v[0], r)\n", Goal.FIX, Settings())
    assert after.endswith("r = jax_utils.replicate(y, d)\nm = jax_utils.unreplicate(r)\n")


def test_the_own_unreplicate_of_another_file() -> None:
    files = {
        "use.py": "import jax\nfrom tools import first\nm = first(jax.pmap(f)(x))\n",
        "tools.py": "import jax\ndef first(t):\n    return jax.tree.map(lambda v: v[0], t)\n",
    }
    project = Project.of(*(Source(path, text) for path, text in files.items()))
    (read,) = rewrite(project.file("tools.py"), Goal.FIX)
    assert read.edits[0].replacement == "first_row"
    assert list(rewrite(project.file("use.py"), Goal.FIX)) == []
