"""What the rules' own examples cannot show: messages, and cases that take several files."""

import pytest

from shardlift.check.engine import check_text, check_texts
from shardlift.source.edits import apply_edits


def _messages(text: str, code: str) -> list[str]:
    return [finding.message for finding in check_text(text).findings if finding.code == code]


def test_indexing_says_more_on_many_processes() -> None:
    text = "import jax\nf = jax.pmap(lambda x: x / 2)\ny = f(x)[0]\n"
    assert _messages(text, "SL401") == ["`f(x)[0]` gathers a pmap output from all devices"]
    (message,) = _messages(text + "n = jax.process_count()\n", "SL401")
    assert "may raise CopyArrays" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g = jax.pmap(train)", "`train` is pmapped"),
        ("g = jax.pmap(lambda x: x)", "a lambda is pmapped"),
        ("g = (jax.pmap if n else jax.jit)(f)", "`f` is pmapped, or passed to jax.jit"),
        ("def w(f):\n    return jax.pmap(f)\ng = w(f)", "`f` is pmapped through w()"),
    ],
)
def test_a_site_says_what_and_how(text: str, message: str) -> None:
    assert _messages(f"import jax\n{text}", "SL201") == [message]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("jnp.clip(x, a_min=0, a_max=n)", "jnp.clip(x, 0, n)"),
        ("jnp.clip(a=x, a_max=1)", "jnp.clip(x, max=1)"),
        ("jnp.clip(a_max=1, a=x)", "jnp.clip(max=1, a=x)"),  # not the first: by hand
        ("jnp.clip(x, a_min=0, min=1)", "jnp.clip(x, a_min=0, min=1)"),
        ("x.clip(a_min=0)", "x.clip(0)"),
        ("jax.remat(f, concrete=True, policy=p)", "jax.remat(f, policy=p)"),
        ("jax.remat(concrete=True)", "jax.remat(concrete=True)"),
        ("jax.remat(f,  # why\n  concrete=True)", "jax.remat(f,  # why\n  concrete=True)"),
    ],
)
def test_removed_keywords_are_renamed_or_deleted(before: str, after: str) -> None:
    head = "import jax\nimport jax.numpy as jnp\ny = "
    findings = check_text(head + before).findings
    assert {finding.code for finding in findings} == {"SL115"}
    edits = [edit for finding in findings for edit in finding.edits]
    assert apply_edits(head + before, edits) == head + after


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("jax.numpy.clip(x, a_max=1)", "pass it by position"),
        ("jax.numpy.clip(a=x, a_max=1)", "use max"),
        ("from jax import tree_map\ny = tree_map(f, x)", "use jax.tree_util.tree_map"),
        ("y = jax.tree_map(f, x)", "use jax.tree.map"),
        ("jax.scipy.special.sph_harm(m, n, a, b)", "is sph_harm_y(n, m, phi, theta)"),
    ],
)
def test_a_message_says_what_fix_writes(text: str, written: str) -> None:
    finding = check_text(f"import jax\n{text}\n").findings[-1]
    assert finding.message.endswith(written)


def test_which_output_is_equal_everywhere() -> None:
    text = (
        "import jax\ndef step(s, x):\n    return s, jax.lax.pmean(x / 2, 'i'), x\n"
        "p = jax.pmap(step, axis_name='i')\ns, loss, x = p(s, x)\nprint(loss[0])\n"
    )
    assert _messages(text, "SL504") == [
        "output 1 is equal on all devices: use out_axes=(0, None, 0)"
    ]


def test_the_axis_name_of_another_file_is_known() -> None:
    texts = {
        "lib/names.py": "import jax\nAXIS = 'i'\npmap = jax.pmap\n",
        "lib/use.py": "import jax\nfrom lib import names\n"
        "f = names.pmap(lambda x: jax.lax.psum(x / 2, names.AXIS), axis_name=names.AXIS)\n"
        "y = f(x)[0]\n",
    }
    codes = [finding.code for finding in check_texts(texts)["lib/use.py"].findings]
    assert codes == ["SL201", "SL504", "SL401"]


def test_a_wrapper_that_may_do_otherwise_is_not_taken_for_pmap() -> None:
    text = (
        "import jax\ndef staged(f):\n    p = jax.pmap(f)\n    def run(*a):\n        if inside:\n"
        "            return f(*a)\n        return p(*a)\n    return run\n"
        "@staged\ndef a(x):\n    return x\n@staged\ndef b(x):\n    return a(x)\n"
    )
    codes = {finding.code for finding in check_text(text).findings}
    assert codes == {"SL201", "SL202"}


def test_a_helper_of_another_file_that_takes_the_first_replica() -> None:
    texts = {
        "lib/utils.py": "import jax\ndef get_first(t):\n"
        "    return jax.tree_util.tree_map(lambda x: x[0], t)\n",
        "lib/train.py": "import jax\nfrom lib import utils\np = jax.pmap(f)\n"
        "state = p(x)\nsave(utils.get_first(state))\nsave(utils.get_first(other))\n",
    }
    lines = [f.span.line for f in check_texts(texts)["lib/train.py"].findings if f.code == "SL402"]
    assert lines == [5]


def test_an_array_that_the_body_makes_itself_is_not_closed_over() -> None:
    text = (
        "import jax\nfrom jax.sharding import PartitionSpec as P\np = jax.pmap(g)\n"
        "def f(x):\n    y = p(x)\n    return [y for _ in x]\n"
        "s = jax.shard_map(f, mesh=m, in_specs=P('i'), out_specs=P('i'))\n"
    )
    assert _messages(text, "SL709") == []
    closed = text.replace("    y = p(x)\n", "").replace("def f", "y = p(z)\ndef f")
    assert _messages(closed, "SL709") == ["`y` is sharded, but the body sees the whole array"]
