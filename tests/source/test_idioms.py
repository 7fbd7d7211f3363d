"""Idioms of pmap code: what counts as one."""

from collections.abc import Callable

import pytest

from shardlift.source import idioms
from shardlift.source.values import Mapped
from tests.source.files import last_value, parse, shown, table

HEAD = (
    "import jax, numpy\nimport jax.numpy as jnp\nfrom flax import jax_utils\n"
    "n = jax.local_device_count()\n"
    "def first(tree): return jax.tree.map(lambda x: x[0], tree)\n"
)
CASES: dict[Callable[..., object], dict[str, object]] = {
    idioms.takes_first: {
        "lambda x: x[0]": True,
        "def f(x):\n    'First row.'\n    return x[0]\nf": True,
        "lambda x: jax.device_get(x[0])": False,  # the tree map is one, see below
        "lambda x, y: y[0]": False,
        "lambda x: x[1]": False,
        "lambda x: x[False]": False,
        "lambda x: x": False,
        "lambda x: z[0]": False,
        "def f(x):\n    log(x)\n    return x[0]\nf": False,
        "def f(x):\n    yield x[0]\nf": False,
        "async def f(x):\n    return x[0]\nf": False,
        "unknown": False,
    },
    idioms.unreplicated_tree: {
        "jax_utils.unreplicate(t)": "t",
        "jax_utils.unreplicate()": None,
        "jax.tree.map(lambda x: x[0], t)": "t",
        "jax.tree.map(lambda x: x[0], t, u)": None,
        "jax.tree.map(lambda x: jax.device_get(x[0]), t)": "t",
        "jax.tree.map(lambda x: numpy.asarray(x[0]), t)": "t",
        "jax.tree.map(lambda x: numpy.asarray(x[0], d), t)": None,
        "jax.tree.map(lambda x: numpy.asarray(x[1]), t)": None,
        "jax.tree.map(lambda x: numpy.sum(x[0]), t)": None,
        "first(t)": "t",
        "first()": None,
        "def g(tree): return jax.tree.map(lambda x: x[0], other)\ng(t)": None,
        "def g(tree): return tree\ng(t)": None,
        "unknown(t)": None,
    },
    idioms.device_count: {
        "jax.device_count()": "global",
        "len(jax.devices())": "global",
        "len(jax.devices('cpu'))": None,
        "n": "local",
        "len(jax.local_devices())": "local",
        "len(xs)": None,
        "8": None,
    },
    idioms.stacking_count: {
        "x.reshape((n, -1))": "n",
        "x.reshape((n, -1) + x.shape[1:])": "n",
        "jnp.reshape(x, (n, -1))": "n",
        "jnp.broadcast_to(x, (n, *x.shape))": "n",
        "jax.random.split(key, n)": "jax.local_device_count()",
        "jnp.stack([x] * n)": "n",
        "jnp.array(n * [x])": "n",
        "jax.tree.map(lambda v: v.reshape((n, -1)), x)": "n",
        "x": None,
        "x.reshape()": None,
        "x.reshape(())": None,
        "x.reshape((8, -1))": None,
        "jax.random.split(key)": None,
        "jnp.stack([x, y])": None,
        "jnp.stack(x * n)": None,
        "jax.tree.map(f, x)": None,
    },
    idioms.has_device_axis: {
        "jax.device_put_replicated(x, devices)": True,
        "jax_utils.replicate(x)": True,
        "jax.pmap(f)(x)": True,
        "x.reshape((n, -1))": True,
        "x": False,
    },
    idioms.axis_of: {
        "jax.lax.psum(x, 'i')": "i",
        "jax.lax.psum(x, axis_name='i')": "i",
        "jax.lax.psum(x, ('i',))": "i",
        "jax.lax.psum(x, ('i', 'j'))": None,
        "jax.lax.psum(x, name)": None,
        "jax.lax.psum(x)": None,
    },
}


@table(CASES)
def test_idioms(function: Callable[..., object], text: str, expected: object) -> None:
    file = parse(HEAD + text)
    assert shown(function(file, last_value(file))) == expected


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
    assert shown(idioms.innermost_expression(file, last_value(file))[1]) == expected


@pytest.mark.parametrize(("text", "expected"), [("'i'", "i"), ("name", None), ("", None)])
def test_axis_names_of_pmapped_functions(text: str, expected: str | None) -> None:
    file = parse(f"{HEAD}jax.pmap(f, {text})")
    mapped = file.only(last_value(file))
    assert isinstance(mapped, Mapped)
    assert idioms.axis_name(mapped) == expected


def test_collectives_are_found_in_nested_functions_too() -> None:
    file = parse(
        "import jax\ndef f(x):\n    g = lambda y: jax.lax.psum(y, 'i')\n"
        "    return jax.lax.pmean(g(x) + jax.lax.exp(x), 'i')\n"
    )
    names = [name for _, name in idioms.collectives(file, file.index.root.body[-1])]
    assert sorted(names) == ["jax.lax.pmean", "jax.lax.psum"]
