"""Certainty: whether an expression can only be what the resolver says."""

from __future__ import annotations

import pytest

from shardlift.source.certainty import is_certain
from tests.source.files import last_value, parse

HEAD = "import functools, jax\n"


def _is_certain(text: str, **others: str) -> bool:
    file = parse(HEAD + text, **others)
    return is_certain(file, last_value(file))


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "jax.pmap",
        "f = jax.pmap(g)\nf",
        "f = jax.pmap(lambda x: x)\nf(1).loss",
        "(f := jax.pmap(g))",
        "a, b = jax.pmap(g)(x), 2\na",
        "out = jax.pmap(g)(x)\nout['loss']",
        "out = jax.pmap(g)(x)\nout['other'] = 2\nout['loss']",
        "out = jax.pmap(g)(x)\nprint(out)\nout['loss']",
        "jax.pmap(g)(x)['loss']",
        "def make(): return jax.pmap(lambda x: x)\nmake()",
        "functools.partial(jax.pmap, axis_name='i')",
        "class C:\n    def __init__(self):\n        self.f = jax.pmap(lambda x: x)\nC().f",
        "[1, unknown]",
    ],
)
def test_certain(text: str) -> None:
    assert _is_certain(text)


@pytest.mark.parametrize(
    "text",
    [
        "x + 1",
        "missing.attribute",
        "f = 1\ndef h():\n    return f\nf = 2\nh()",
        "for f in fs:\n    pass\nf",
        "with m as f:\n    pass\nf",
        "def make(): yield 1\nmake()",
        "out = jax.pmap(g)(x)\nout['loss'] = 2\nout['loss']",
        "out = jax.pmap(g)(x)\nout[key] = 2\nout['loss']",
        "out = jax.pmap(g)(x)\nout.update(other)\nout['loss']",
        "out = jax.pmap(g)(x)\ndel out['loss']\nout['loss']",
        "out = jax.pmap(g)(x)\nother = out\nout['loss']",
        "def change(d): d.clear()\nout = jax.pmap(g)(x)\nchange(out)\nout['loss']",
        "class C:\n    def __init__(self):\n        self.f = 1\n        self.f = 2\nC().f",
        "class C:\n    f = 1\nC().f = 2\nC().f",
        "class C:\n    f = 1\nsetattr(C(), 'f', 2)\nC().f",
        "(lambda: 1, 2)[0]",
    ],
)
def test_not_certain(text: str) -> None:
    assert not _is_certain(text)


@pytest.mark.parametrize(
    ("other", "expected"),
    [("x = 1", True), ("C().f = 2", False), ("setattr(c, 'f', 1)", False), ("def f(): ...", False)],
)
def test_attributes_may_be_assigned_in_other_files(other: str, expected: bool) -> None:
    text = "class C:\n    def __init__(self):\n        self.f = jax.pmap(lambda x: x)\nC().f"
    assert _is_certain(text, other=other) is expected


def test_a_long_chain_is_not_certain() -> None:
    chain = "\n".join(f"x{n + 1} = x{n}" for n in range(40))
    assert not _is_certain(f"x0 = 1\n{chain}\nx40")
    assert _is_certain(f"x0 = 1\n{chain}\nx9")
