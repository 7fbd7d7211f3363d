"""What the text proves of the structure of a value: nothing, a leaf, or a tuple of what."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import jax.numpy
import pytest

from shardlift.source.array_functions import ARRAYS_UNLESS, LIKE_ARGUMENT, MODULES
from shardlift.source.inference import Inference
from shardlift.source.project import Project
from shardlift.source.structure import Leaf, Parts, Structure, tuple_of
from shardlift.source.text import Source

HEAD = """\
import functools
from typing import NamedTuple
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
"""
ARRAY, NUMBER = Leaf.ARRAY, Leaf.NUMBER


def structure(body: str) -> Structure:
    """The structure of what a function `f(x, y)` returns."""
    text = f"{HEAD}def f(x, y):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return of_call(f"{text}result = f(unknown, unknown)\n")


def of_call(text: str) -> Structure:
    """The structure of what is assigned last."""
    file = Project.of(Source("example.py", text)).file("example.py")
    last = file.index.root.body[-1]
    assert isinstance(last, ast.Assign)
    return Inference(file).of(last.value)


@pytest.mark.parametrize(
    "expression",
    [
        "x",
        "x * 2",
        "x * y",
        "2 * x",
        "x + y",
        "x | y",
        "x[0]",
        "x.T",
        "x.mean()",
        "x.loss",
        "x(y)",
        "lax.pmean(x, 'i')",
        "lax.stop_gradient(x)",
        "jax.tree.map(jnp.sin, x)",
        "jax.tree.map(lambda v: (v, v), jnp.sin(x))",
        "jnp.linalg.slogdet(x)",
        "jnp.linalg.qr(x)",
        "jnp.linalg.svd(x)",
        "jnp.linalg.eigh(x)",
        "jnp.unique(x)",
        "jnp.modf(x)",
        "jnp.divmod(x, y)",
        "jnp.split(x, 2)",
        "jnp.meshgrid(x)",
        "jnp.nonzero(x)",
        "jnp.where(x)",
        "jnp.where(*x)",
        "jnp.average(x, returned=True)",
        "jnp.average(x, None, None, True)",
        "jnp.average(x, **y)",
        "jnp.linspace(0, 1, retstep=True)",
        "jax.nn.logsumexp(x, return_sign=True)",
        "lax.top_k(x, 2)",
        "lax.sort(x)",
        "lax.scan(f, x, y)",
        "lax.cond(x, f, f, y)",
        "jax.vjp(f, x)",
        "jax.grad(g)(x)",
        "divmod(x, y)",
        "max(x, y)",
        "sum(x, ())",
        "None",
        "'text'",
        "x and y",
        "jnp.sin(x) if y else (x, y)",
        "(jnp.sin(x), y)[z]",
        "(*x, jnp.sin(y))",
        "[jnp.sin(v) for v in x]",
        "dict(**x)",
        "{**x}",
        "{y: jnp.sin(x)}['a']",
        "f(x, y)",
        "lambda: x",
        "f'{x}'",
    ],
)
def test_nothing_is_proven(expression: str) -> None:
    assert structure(f"return {expression}") is None


@pytest.mark.parametrize(
    "body",
    [
        "if x:\n    return jnp.sin(x)",
        "if x:\n    return\nreturn jnp.sin(x)",
        "if x:\n    return x, y\nreturn jnp.sin(x)",
        "yield x\nreturn jnp.sin(x)",
        "try:\n    return jnp.sin(x)\nexcept E:\n    pass",
        "try:\n    y = jnp.sin(x)\nexcept E:\n    pass\nreturn y",
        "z = x, y\nif x:\n    z = jnp.sin(x)\nreturn z",
        "for z in x:\n    pass\nreturn z",
        "with x as z:\n    pass\nreturn z",
        "z = jnp.sin(x)\ndel z\nreturn z",
        "a, *z = jnp.sin(x), y\nreturn z",
        "*a, z = (x, y), jnp.sin(x)\nreturn z",
        "z = jnp.sin(x)\ndef g():\n    nonlocal z\n    z = x, y\ng()\nreturn z",
        "z = 2\nfor k in x:\n    z = z * y\nreturn z",
        "z = ()\nfor k in x:\n    z += (k,)\nreturn z",
        "z = []\nfor k in x:\n    z = z + [k]\nreturn z",
        "def g(v):\n    return v * 2\nreturn g(x)",
        "def g(v):\n    return v, v\nreturn g(x)[y]",
        "@y\ndef g(v):\n    return jnp.sin(v)\nreturn g(x)",
        "def g(v):\n    return g(v)\nreturn g(x)",
        "async def g(v):\n    return jnp.sin(v)\nreturn g(x)",
        "class G:\n    def __call__(self, v):\n        return jnp.sin(v)\nreturn G()(x)",
        "(l, aux), g = jax.value_and_grad(y, has_aux=x)(x)\nreturn l",
        "l, g = jax.value_and_grad(y, has_aux=True)(x)\nreturn g",
        "l, g = jax.value_and_grad(y, 0, True)(x)\nreturn l",
        "l, g = jax.value_and_grad(y, **x)(x)\nreturn l",
    ],
)
def test_nothing_is_proven_of_a_function(body: str) -> None:
    found = structure(body)
    assert found is None or found == tuple_of(ARRAY, None)
    assert not isinstance(found, Leaf)


@pytest.mark.parametrize(
    "expression",
    [
        "jnp.sin(x)",
        "x / y",
        "x @ y",
        "x * 2.0",
        "x + 1.5",
        "jnp.sin(x) * y",
        "y * jnp.sin(x)",
        "-jnp.sin(x)",
        "jnp.mean(x)[0]",
        "jnp.mean(x).sum()",
        "jnp.mean(x).T.at[0].set(1)",
        "lax.pmean(x / 2, 'i')",
        "lax.psum(lax.stop_gradient(jnp.sin(x)), 'i')",
        "jax.tree.map(lambda v: lax.pmean(v, 'i'), jnp.sin(x))",
        "jax.tree.map(jnp.mean, x / y)",
        "jnp.where(x > 0, x, y)",
        "jnp.average(x, weights=y)",
        "jax.nn.logsumexp(x, axis=0)",
        "jnp.sin(x) if y else x / 2",
        "jax.jit(lambda v: jnp.sin(v))(x)",
        "jax.jit(jax.checkpoint(jnp.sin))(x)",
        "(x, jnp.sin(y))[1]",
        "{'a': x, 'b': jnp.sin(y)}['b']",
        "float(x)",
        "lax.fori_loop(0, 3, y, x / 2)",
    ],
)
def test_an_array(expression: str) -> None:
    assert structure(f"return {expression}") is ARRAY


@pytest.mark.parametrize(
    "expression",
    ["x - y", "x ** 2", "x // y", "x % y", "-x", "~x", "not x", "x > y", "1 + x", "3", "len(x)",
     "sum(x)", "np.zeros(3)", "lax.psum(1, 'i')", "jnp.sin(x) if y else 3"],
)  # fmt: skip
def test_a_leaf_that_may_be_an_int(expression: str) -> None:
    assert structure(f"return {expression}") is NUMBER


@pytest.mark.parametrize(
    "body",
    [
        "z = jnp.sin(x)\nreturn z",
        "x = jnp.sin(x)\nx = lax.pmean(x, 'i')\nreturn x",
        "z, y = jnp.sin(x), y\nreturn z",
        "loss, grads = jax.value_and_grad(y)(x)\nreturn lax.pmean(loss, 'i')",
        "g = jax.value_and_grad(y, has_aux=True)\n(loss, aux), grads = g(x)\nreturn loss",
        "def g(v):\n    return y(v), jnp.sin(v)\n"
        "(loss, aux), _ = jax.value_and_grad(g, has_aux=True)(x)\nreturn aux",
        "def g(v):\n    return v * 2\nreturn g(x / 2)",
        "def g(v):\n    return v + z\nz = jnp.sin(x)\nreturn g(x)",
        "z = 0.0\nfor k in x:\n    z = z + k\nreturn z",
        "z = 0.0\nfor k in x:\n    z += y(k)\nreturn z",
        "if x:\n    return jnp.sin(x)\nelse:\n    raise ValueError",
        "with y:\n    return jnp.sin(x)",
        "try:\n    return jnp.sin(x)\nfinally:\n    y()",
        "d = {'a': jnp.sin(x)}\nd['b'] = (x, y)\nd = lax.pmean(d, 'i')\nreturn d['a']",
    ],
)
def test_an_array_of_a_function(body: str) -> None:
    assert structure(body) is ARRAY


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ("return jnp.sin(x), y", tuple_of(ARRAY, None)),
        ("return lax.pmean((x / 2, y), 'i')", tuple_of(ARRAY, None)),
        ("return (x / 2,) + (y,)", tuple_of(ARRAY, None)),
        ("return [x / 2, y]", Parts(list, {0: ARRAY, 1: None})),
        ("return {'a': x / 2}, y", tuple_of(Parts(dict, {"a": ARRAY}), None)),
        ("return dict(a=x / 2)", Parts(dict, {"a": ARRAY})),
        ("d = {'a': x / 2}\nd['a'] = y\nreturn d", Parts(dict, {"a": None})),
        ("if x:\n    return x / 2, y\nreturn x, y / 2", tuple_of(None, None)),
        ("if x:\n    return x / 2, 1\nreturn x / 3, y / 2", tuple_of(ARRAY, NUMBER)),
    ],
)
def test_parts(body: str, parts: Parts) -> None:
    assert structure(body) == parts


@pytest.mark.parametrize(
    "body",
    [
        "z = [x / 2]\nz.append(y)\nreturn z",
        "z = [x / 2]\nz[0] = y\nreturn z",
        "z = [x / 2]\ny(z)\nreturn z",
        "z = [x / 2]\nw = z\nw.append(y)\nreturn z",
        "z = {'a': x / 2}\nz.update(y)\nreturn z",
        "z = {'a': x / 2}\nz[y] = x\nreturn z",
        "z = {'a': x / 2}\ndef g():\n    z.clear()\ng()\nreturn z",
        "z = {'a': x / 2}\nz |= y\nreturn z",
    ],
)
def test_what_is_changed_is_not_known(body: str) -> None:
    assert structure(body) is None


def test_a_parameter_is_what_it_is_given() -> None:
    text = f"{HEAD}def f(x, *rest, y=3):\n    return x * 2\n"
    assert of_call(f"{text}result = f(jnp.ones(3))\n") is ARRAY
    assert of_call(f"{text}result = f(x=jnp.ones(3))\n") is ARRAY
    assert of_call(f"{text}result = f((jnp.ones(3),))\n") is None
    assert of_call(f"{text}result = f(*jnp.ones(3))\n") is None


def test_a_method_may_be_overridden() -> None:
    text = (
        f"{HEAD}class A:\n    def g(self, x):\n        return jnp.sin(x)\n"
        "    def h(self):\n        return self.g(3)\n"
    )
    assert of_call(f"{text}result = A().h()\n") is ARRAY
    derived = "class B(A):\n    def g(self, x):\n        return x, x\n"
    assert of_call(f"{text}{derived}result = A().h()\n") is None


def test_a_method_may_be_overridden_in_another_file() -> None:
    text = (
        f"{HEAD}class A:\n    def g(self, x):\n        return jnp.sin(x)\n"
        "    def h(self):\n        return self.g(3)\nresult = A().h()\n"
    )
    other = "from a import A\nclass B(A):\n    def g(self, x):\n        return x, x\n"
    file = Project.of(Source("a.py", text), Source("b.py", other)).file("a.py")
    last = file.index.root.body[-1]
    assert isinstance(last, ast.Assign)
    assert Inference(file).of(last.value) is None


def test_a_long_sum_is_given_up() -> None:
    terms = " + ".join(["x"] * 400)
    assert structure(f"return jnp.sin({terms})") is ARRAY
    assert structure(f"return {terms}") is None


# ---- the tables


def _annotations(module: str) -> dict[str, set[str]]:
    """What each function of a module is annotated to return, by name."""
    if module == "jax.numpy":
        stub = Path(jax.numpy.__file__).with_suffix(".pyi").read_text()
        found: dict[str, set[str]] = {}
        for node in ast.parse(stub).body:
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                found.setdefault(node.name, set()).add(ast.unparse(node.returns))
        return found
    names = vars(importlib.import_module(module)).items()
    functions = {name: one for name, one in names if callable(one)}
    return {name: {_returned(one)} for name, one in functions.items()}


def _returned(function: object) -> str:
    try:
        annotation = inspect.signature(function).return_annotation  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "?"
    return str(getattr(annotation, "__name__", annotation)).rpartition(".")[2]


# Constructors of dtypes, ufuncs and functions without an annotation: each returns one array.
UNANNOTATED = {
    "add", "bfloat16", "bitwise_and", "bitwise_or", "bitwise_xor", "bool_", "complex128",
    "complex64", "cond", "cross", "float16", "float32", "float64", "int16", "int32", "int64",
    "int8", "logaddexp", "logaddexp2", "logical_and", "logical_or", "logical_xor", "maximum",
    "minimum", "multiply", "subtract", "uint16", "uint32", "uint8",
}  # fmt: skip


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("jax.")])
def test_the_tables_are_what_jax_says(module: str) -> None:
    annotations = _annotations(module)
    names = set(MODULES[module].split())
    wrong = {n: annotations.get(n) for n in names if annotations.get(n) not in ({"Array"}, None)}
    unknown = {name for name in names if annotations.get(name) is None}
    assert {name for name, said in wrong.items() if said != {"_empty"}} == set()
    assert {name for name, said in wrong.items() if said == {"_empty"}} <= UNANNOTATED
    assert unknown <= UNANNOTATED


@pytest.mark.parametrize("path", [*ARRAYS_UNLESS, *LIKE_ARGUMENT])
def test_the_other_tables_name_what_there_is(path: str) -> None:
    module, _, name = path.rpartition(".")
    if path != "jax.lax.pvary":  # not in every release
        assert hasattr(importlib.import_module(module), name)


def test_functions_that_call_one_another_often_take_no_time() -> None:
    bodies = "".join(
        f"def f{n}(v):\n" + "".join(f"    if v:\n        return f{n + 1}(v)\n" for _ in range(20))
        for n in range(20)
    )
    text = f"{HEAD}{bodies}def f20(v):\n    return f0(v)\nresult = f0(1)(2)\n"
    assert of_call(text) is None
