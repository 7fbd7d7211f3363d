"""Idioms of pmap code: what counts as one."""

from __future__ import annotations

import ast

import pytest

from shardlift.source.idioms import (
    axis_name,
    axis_of,
    device_count,
    has_device_axis,
    innermost_expression,
    stacking_count,
    takes_first,
    unreplicated_tree,
)
from shardlift.source.values import Mapped
from tests.source.files import last_value, parse

HEAD = (
    "import jax, numpy\nimport jax.numpy as jnp\nfrom flax import jax_utils\n"
    "n = jax.local_device_count()\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lambda x: x[0]", True),
        ("def f(x):\n    'First row.'\n    return x[0]\nf", True),
        ("lambda x, y: y[0]", False),
        ("lambda x: x[1]", False),
        ("lambda x: x[False]", False),
        ("lambda x: x", False),
        ("lambda x: z[0]", False),
        ("def f(x):\n    log(x)\n    return x[0]\nf", False),
        ("def f(x):\n    yield x[0]\nf", False),
        ("async def f(x):\n    return x[0]\nf", False),
        ("unknown", False),
    ],
)
def test_functions_that_take_the_first_row(text: str, expected: bool) -> None:
    file = parse(HEAD + text)
    assert takes_first(file, last_value(file)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jax_utils.unreplicate(t)", "t"),
        ("jax_utils.unreplicate()", None),
        ("jax.tree.map(lambda x: x[0], t)", "t"),
        ("jax.tree.map(lambda x: x[0], t, u)", None),
        ("jax.tree.map(lambda x: x + 1, t)", None),
        ("def first(tree): return jax.tree.map(lambda x: x[0], tree)\nfirst(t)", "t"),
        ("def first(tree): return jax.tree.map(lambda x: x[0], tree)\nfirst()", None),
        ("def first(tree): return jax.tree.map(lambda x: x[0], other)\nfirst(t)", None),
        ("def first(tree): return tree\nfirst(t)", None),
        ("unknown(t)", None),
    ],
)
def test_unreplicated_trees(text: str, expected: str | None) -> None:
    file = parse(HEAD + text)
    call = last_value(file)
    assert isinstance(call, ast.Call)
    tree = unreplicated_tree(file, call)
    assert (ast.unparse(tree) if tree is not None else None) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jax.device_count()", "global"),
        ("len(jax.devices())", "global"),
        ("len(jax.devices('cpu'))", None),
        ("n", "local"),
        ("len(jax.local_devices())", "local"),
        ("len(xs)", None),
        ("8", None),
    ],
)
def test_device_counts(text: str, expected: str | None) -> None:
    file = parse(HEAD + text)
    assert device_count(file, last_value(file)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "x.reshape((n, -1))",
        "x.reshape((n, -1) + x.shape[1:])",
        "x.reshape([n, 4])",
        "jnp.reshape(x, (n, -1))",
        "jnp.broadcast_to(x, (n, *x.shape))",
        "jax.random.split(key, n)",
        "jnp.stack([x] * n)",
        "jnp.array(n * [x])",
        "jax.tree.map(lambda v: v.reshape((n, -1)), x)",
    ],
)
def test_values_with_a_device_axis(text: str) -> None:
    file = parse(HEAD + text)
    count = stacking_count(file, last_value(file))
    assert count is not None
    assert device_count(file, count) == "local"
    assert has_device_axis(file, last_value(file))


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "x.reshape()",
        "x.reshape(())",
        "x.reshape((8, -1))",
        "jax.random.split(key)",
        "jnp.stack([x, y])",
        "jnp.stack(x * n)",
        "jnp.stack([x] + n)",
        "jax.tree.map(f, x)",
    ],
)
def test_values_without_a_device_axis(text: str) -> None:
    file = parse(HEAD + text)
    assert stacking_count(file, last_value(file)) is None
    assert not has_device_axis(file, last_value(file))


@pytest.mark.parametrize("text", ["jax_utils.replicate(x)", "jax.pmap(f)(x)"])
def test_replicas_and_outputs_have_a_device_axis(text: str) -> None:
    file = parse(HEAD + text)
    assert has_device_axis(file, last_value(file))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(x): return x.T\njax.tree.map(f, t)", "x.T"),
        ("def f(x): return g(x)\ndef g(x): return x.T\nf(t)", "x.T"),
        ("def f(x):\n    if x:\n        return 1\n    return 2\nf(t)", "f(t)"),
        ("unknown(t)", "unknown(t)"),
        ("def f(x): return f(x)\nf(t)", "f(x)"),
    ],
)
def test_innermost_expressions(text: str, expected: str) -> None:
    file = parse(HEAD + text)
    _, node = innermost_expression(file, last_value(file))
    assert ast.unparse(node) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jax.lax.psum(x, 'i')", "i"),
        ("jax.lax.psum(x, axis_name='i')", "i"),
        ("jax.lax.psum(x, ('i',))", "i"),
        ("jax.lax.psum(x, ('i', 'j'))", None),
        ("jax.lax.psum(x, name)", None),
        ("jax.lax.psum(x)", None),
    ],
)
def test_axes_of_collectives(text: str, expected: str | None) -> None:
    file = parse(HEAD + text)
    call = last_value(file)
    assert isinstance(call, ast.Call)
    assert axis_of(file, call) == expected


@pytest.mark.parametrize(("text", "expected"), [("'i'", "i"), ("name", None), ("", None)])
def test_axis_names_of_pmapped_functions(text: str, expected: str | None) -> None:
    file = parse(f"{HEAD}jax.pmap(f, {text})")
    mapped = file.only(last_value(file))
    assert isinstance(mapped, Mapped)
    assert axis_name(mapped) == expected
