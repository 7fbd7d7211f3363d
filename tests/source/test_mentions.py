"""Where a file names pmap: the same places for `check` and for `migrate`."""

import pytest

from shardlift.check.engine import check_text
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.source.mentions import Use
from tests.source.files import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import jax\nf = jax.pmap(g)", [(Use.CALL, "jax.pmap(g)")]),
        ("import jax\n@jax.pmap\ndef f(x): ...", [(Use.DECORATOR, "jax.pmap")]),
        (
            "import jax\nfrom functools import partial\n@partial(jax.pmap, in_axes=1)\n"
            "def f(x): ...",
            [(Use.DECORATOR, "partial(jax.pmap, in_axes=1)")],
        ),
        ("import jax\ntrain(transform=jax.pmap)", [(Use.VALUE, "jax.pmap")]),
        ("from jax import *\ntrain(transform=pmap)", [(Use.VALUE, "pmap")]),
        ("import jax\nif transform is jax.pmap: pass", [(Use.COMPARED, "jax.pmap")]),
        ("import jax\nprint(jax.pmap.__doc__)", []),
        ("import functools, jax\n@functools.wraps(jax.pmap)\ndef f(): ...", []),
        ("import jax\njax.pmap = fake", []),
        ("import jax\npmap = jax.pmap\nf = pmap(g)", [(Use.VALUE, "jax.pmap")]),
        ("from mine import pmap\nf = pmap(g)", []),
        ("from jax import pmap\ndef f(a: Literal['pmap', 'jit'], b: Float[Array, 'pmap']): 1", []),
    ],
)
def test_what_is_done_where_pmap_is_named(text: str, expected: list[tuple[Use, str]]) -> None:
    file = parse(text)
    assert [(mention.use, file.text(mention.node)) for mention in file.mentions] == expected


@pytest.mark.parametrize("goal", [Goal.SHARD_MAP, Goal.GLOBAL, Goal.SHIM])
def test_a_comparison_is_left_alone_by_both(goal: Goal) -> None:
    text = "import jax\nif transform is jax.pmap:\n    pass\n"
    assert check_text(text).findings == ()
    (file,) = migrate(["m.py"], lambda _: text.encode(), lambda _: False, goal).files
    assert not file.changed
    (left,) = file.refused
    assert (left.span.line, left.reason[:24]) == (2, "it is compared with pmap")


def test_another_librarys_pmap_is_not_jaxs_own() -> None:
    text = "import jax, equinox as eqx\nf = eqx.filter_pmap(g)\nh = jax.pmap(g)\n"
    file = parse(text)
    assert [mention.is_own for mention in file.mentions] == [False, True]
