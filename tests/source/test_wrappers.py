"""Wrappers of pmap: what counts as one, and what its arguments are."""

import ast

import pytest

from shardlift.source.values import Known, Mapped, Transform
from shardlift.source.wrappers import argument_for, as_transform, is_plain
from tests.source.files import last_value, parse

HEAD = "import functools, jax, objax\n"


def _transform(text: str) -> Transform | None:
    file = parse(HEAD + text)
    return as_transform(file.values(last_value(file))[0])


def _function(text: str) -> Known:
    file = parse(HEAD + text)
    node = next(node for node in file.index.opens if not isinstance(node, ast.Module))
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef))
    return Known(node, file)


@pytest.mark.parametrize(
    ("text", "chain", "certain"),
    [
        ("jax.pmap", (), True),
        ("functools.partial(jax.pmap, axis_name='i')", (), True),
        ("def w(f): return jax.pmap(f)\nw", ("w",), True),
        ("def w(n, f): return jax.pmap(f)\ndef v(f): return w(1, f)\nv", ("v", "w"), True),
        ("def w(f):\n    if n:\n        return jax.pmap(f)\n    return f\nw", ("w",), False),
        ("def w(f): return jax.pmap(f) if n else f\nw", ("w",), False),
        (
            "def w(f):\n    p = jax.pmap(f)\n    def run(x): return p(x)\n    return run\nw",
            ("w",),
            True,
        ),
        (
            "def w(f):\n    p = jax.pmap(f)\n    def run(x): return p(x)[0]\n    return run\nw",
            None,
            None,
        ),
        ("@other\ndef w(f): return jax.pmap(f)\nw", ("w",), False),
    ],
)
def test_transforms(text: str, chain: tuple[str, ...] | None, certain: bool | None) -> None:
    transform = _transform(text)
    assert (transform and transform.chain, transform and transform.certain) == (chain, certain)


@pytest.mark.parametrize(
    "text",
    [
        "jax.jit",
        "len",
        "lambda f: jax.pmap(f)",
        "def w(f): return jax.pmap(g)\nw",
        "def w(f): return jax.pmap(f)(1)\nw",
        "def w(f): return w(f)\nw",
        "def w(f): return jax.pmap(f.__call__)\nw",
    ],
)
def test_other_functions_are_no_transforms(text: str) -> None:
    assert _transform(text) is None


@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("jax.pmap(g, 'i')", {"axis_name": "'i'"}),
        ("jax.pmap(fun=g, in_axes=1)", {"in_axes": "1"}),
        ("jax.pmap(f=g)", {"f": "g"}),
        ("objax.Parallel(g, v)", {"vc": "v"}),
        ("functools.partial(jax.pmap, axis_name='i')(g, axis_name='j')", {"axis_name": "'j'"}),
        ("functools.partial(jax.pmap, g, 'i')", {"axis_name": "'i'"}),
        ("def w(f, a): return jax.pmap(f, a)\nw(g, 'i')", {"axis_name": "a"}),
        ("class C:\n    def w(self, f): return jax.pmap(f)\nC().w(g)", {}),
    ],
)
def test_keywords_of_a_mapped_function(text: str, keywords: dict[str, str]) -> None:
    file = parse(HEAD + text)
    value = file.only(last_value(file))
    assert isinstance(value, Mapped)
    assert {name: ast.unparse(one.node) for name, one in value.keywords.items()} == keywords


def test_a_starred_operand_is_not_known() -> None:
    file = parse(HEAD + "jax.pmap(*functions)")
    assert isinstance(file.only(last_value(file)), Transform)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lambda x: x", True),
        ("def f(x): return x", True),
        ("def f(x): yield x", False),
        ("async def f(x): return x", False),
        ("class C: pass", False),
        ("@jax.jit\ndef f(x): return x", True),
        ("@functools.partial(jax.jit, static_argnums=0)\ndef f(x): return x", True),
        ("@functools.lru_cache(None)\ndef f(x): return x", True),
        ("@jax.pmap\ndef f(x): return x", True),
        ("@jax.grad\ndef f(x): return x", False),
        ("@missing\ndef f(x): return x", False),
    ],
)
def test_plain_functions(text: str, expected: bool) -> None:
    assert is_plain(_function(text)) is expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("f(1, 2)", "2"),
        ("f(1, y=3)", "3"),
        ("f(1)", None),
        ("f(*xs, 2)", None),
        ("f(1, **rest)", None),
    ],
)
def test_the_argument_for_a_parameter(call: str, expected: str | None) -> None:
    function = _function("def f(x, y, *, z=0): return y")
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    argument = argument_for(function, "y", node)
    assert (ast.unparse(argument) if argument is not None else None) == expected
    assert argument_for(function, "z", node) is None
