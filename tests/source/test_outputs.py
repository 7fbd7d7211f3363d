"""Outputs of pmapped functions: what the source says about them."""

import ast
from collections.abc import Callable

import pytest

from shardlift.source import outputs
from shardlift.source.file import File
from shardlift.source.values import Mapped
from tests.source.files import last_value, parse, shown, table

HEAD = "import equinox, jax, numpy, objax\n"


@pytest.mark.parametrize(
    ("body", "path", "expected"),
    [
        ("return x", (), ["x"]),
        ("return x, y", (1,), ["y"]),
        ("return {'a': x, 'b': y}", ("b",), ["y"]),
        ("out = x, (y, z)\n    return out", (1, 1), ["z"]),
        ("if c:\n        return x, 1\n    return y, 2", (0,), ["x", "y"]),
        ("return x, *y", (0,), []),
        ("return x, y", (2,), []),
        ("return {'a': x}", ("c",), []),
        ("return jax.lax.pmean((x, {'a': y}), 'i')", (1, "a"), ["y"]),
        ("for _ in x:\n        w = jax.lax.pmean(w, 'i')\n    return w", (0,), []),
        ("return f(x)", (0,), []),
        ("yield x", (), []),
    ],
)
def test_returned_expressions(body: str, path: tuple[int | str, ...], expected: list[str]) -> None:
    file = parse(f"{HEAD}def f(x, y, z):\n    {body}\njax.pmap(f)")
    value = file.only(last_value(file))
    assert isinstance(value, Mapped)
    assert [ast.unparse(node) for _, node in outputs.returned_at(value, path)] == expected


def _path_of(file: File, node: ast.expr) -> object:
    output = outputs.output_of(file, node)
    return output.path if output is not None else None


def _selects_device(file: File, node: ast.expr) -> bool:
    assert isinstance(node, ast.Subscript)
    return outputs.device_index(file, node) is not None


CASES: dict[Callable[..., object], dict[str, object]] = {
    _path_of: {
        "f = jax.pmap(lambda x: (x, x / 2))\nf(x)": (),
        "f = jax.pmap(lambda x: (x, x / 2))\nf(x)[1]": (1,),
        "f = jax.pmap(lambda x: [x, x / 2])\nf(x)[1]": (1,),
        "f = jax.pmap(lambda x: (x, (x, 1.0)))\nf(x)[1][0]": (1, 0),
        "f = jax.pmap(lambda x: x / 2)\nf(x)[0]": None,
        "f = jax.pmap(lambda x: (x, x))\nf(x)[5]": None,
        "f = jax.pmap(lambda x: (x, x))\nf(x)[i]": None,
        "f = jax.pmap(unknown)\nf(x)[0]": None,
        "f = jax.pmap(g) if n else g\nf(x)": None,
        "def w(f):\n    if n:\n        return jax.jit(f)\n    return jax.pmap(f)\nw(g)(x)": None,
        "f = jax.pmap(g, **options)\nf(x)": None,
        "f = objax.Parallel(g)\nf(x)": None,
        "@other\n@jax.pmap\ndef f(x): return x\nf(x)": None,
        "x = 1\nx": None,
    },
    _selects_device: {
        "f = jax.pmap(lambda x: x / 2)\nf(x)[0]": True,
        "f = jax.pmap(lambda x: x / 2, out_axes=0)\nf(x)[0]": True,
        "f = jax.pmap(lambda x: x / 2, out_axes=1)\nf(x)[0]": False,
        "f = jax.pmap(lambda x: x / 2, out_axes=axes)\nf(x)[0]": False,
        "f = jax.pmap(lambda x: (x, x))\nf(x)[0]": False,
        "f = jax.pmap(lambda x: x / 2)\nf(x)[:1]": True,
        "f = jax.pmap(lambda x: x / 2)\nf(x)[:]": False,
        "f = jax.pmap(lambda x: x / 2)\nf(x)[True]": False,
    },
    outputs.may_have_rows: {
        "f = jax.pmap(g)\ny = f(x) if c else z\ny": True,
        "f = jax.pmap(g, out_axes=0)\nf(x)": True,
        "f = jax.pmap(g, out_axes=axes)\nf(x)": False,
        "f = jax.pmap(g, out_axes=None)\nf(x)": False,
        "f = jax.pmap(lambda x: (x, x))\nf(x)[1]": True,
        "f = equinox.filter_pmap(g)\nf(x)": True,
        "f = objax.Parallel(g)\nf(x)": False,
        "f = jax.jit(g)\nf(x)": False,
    },
    outputs.fetched_argument: {
        "jax.device_get(x)": "x",
        "y = numpy.asarray(x)\ny": "x",
        "numpy.sum(x)": None,
        "jax.device_get()": None,
    },
}


@table(CASES)
def test_outputs(function: Callable[..., object], text: str, expected: object) -> None:
    file = parse(HEAD + text)
    assert shown(function(file, last_value(file))) == expected


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("x / 2", True),
        ("x + 1.0", True),
        ("y * (x - 1)", True),
        ("x.mean()", True),
        ("jnp.square(x)", True),
        ("jax.lax.pmean(x.sum(), 'i')", True),
        ("half(x)", True),
        ("loss", True),
        ("auxiliary_loss", True),
        ("x", False),
        ("x * 2", False),  # of a tuple, it is one
        ("x | y", False),
        ("not x", False),
        ("jax.lax.pmean(x, 'i')", False),
        ("jnp.split(x, 2)", False),
        ("pair(x)", False),
        ("unknown(x)", False),
        ("round(x)", False),
        ("gradient", False),
        ("both", False),
        ("again(x)", False),
        ("nothing(x)", False),
    ],
)
def test_expressions_that_are_one_array(returned: str, expected: bool) -> None:
    file = parse(
        f"{HEAD}import jax.numpy as jnp\nhalf = lambda x: x / 2\npair = lambda x: (x, x)\n"
        "def again(x):\n    return again(x)\n"
        "def nothing(x):\n    pass\n"
        "def f(x, y):\n    loss, gradient = jax.value_and_grad(h)(x)\n"
        "    (auxiliary_loss, m), _ = jax.value_and_grad(h, has_aux=True)(x)\n"
        "    both, _ = jax.value_and_grad(h, has_aux=True)(x)\n"
        f"    return {returned}\njax.pmap(f)(x, y)"
    )
    output = outputs.output_of(file, last_value(file))
    assert output is not None
    assert outputs.is_array(output) is expected


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("(x, x)", True),
        ("[x for _ in y]", True),
        ("{'a': x}", True),
        ("jax.lax.pmean((x, x), 'i')", True),
        ("(x, x) if y else [x]", False),  # not one display
        ("x / 2", False),
        ("g(x)", False),
    ],
)
def test_tuples_that_are_written_out(returned: str, expected: bool) -> None:
    file = parse(f"{HEAD}jax.pmap(lambda x, y: {returned})(x, y)")
    node = last_value(file)
    output = outputs.output_of(file, node)
    assert output is not None
    assert outputs.is_container(output) is expected
    assert outputs.may_have_rows(file, node) is not expected


@pytest.mark.parametrize(
    ("origin", "use", "expected"),
    [
        ("jax.pmap", "float(y[0])", True),
        ("jax.pmap", "print(y[0])", False),
        ("jax.pmap", "f'{y[0]:.3f}'", True),
        ("jax.pmap", "f'{y[0]}'", False),
        ("jax.pmap", "f'{y[0]!r:>9}'", False),
        ("jax.pmap", "f'{y[0]:{width}}'", False),
        ("equinox.filter_pmap", "float(y[0])", False),
    ],
)
def test_uses_that_need_a_scalar(origin: str, use: str, expected: bool) -> None:
    file = parse(f"{HEAD}f = {origin}(g)\ny = f(x)\n{use}")
    (node,) = file.index.nodes(ast.Subscript)
    assert outputs.is_scalar(file, node, outputs.output_of(file, node.value)) is expected
