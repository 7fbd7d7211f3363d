"""Gradients in the bodies of shard_maps: which are found, and what reduces them."""

import ast

import pytest

from shardlift.check.gradients import checked_gradients, loss_is_reduced, reductions_of
from shardlift.source.file import File
from tests.source.files import parse

HEAD = (
    "import jax\nfrom jax import lax\nfrom jax.sharding import PartitionSpec as P\n"
    "def inner(w): return lax.psum(w, 'i')\n"
    "def loss(w, x): return (w * x).sum()\n"
)


def _file(body: str, head: str = HEAD) -> File:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return parse(f"{head}def f(w, x):\n{lines}jax.shard_map(f, mesh=m, in_specs=P())\n")


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ("return jax.grad(loss)(w, x)", "w"),
        ("return jax.grad(loss, 1)(w, x)", "x"),
        ("return jax.grad(loss, argnums=1)(w, x)", "x"),
        ("return jax.value_and_grad(loss)(w, x)", "w"),
        ("return jax.grad(loss, argnums=(0, 1))(w, x)", None),
        ("return jax.grad(loss, argnums=n)(w, x)", None),
        ("return jax.grad(loss, argnums=2)(w, x)", None),
        ("return jax.grad(unknown)(w, x)", None),
        ("return jax.grad()(w, x)", None),
        ("return jax.grad(loss)(w + 1, x)", None),
        ("return jax.vmap(loss)(w, x)", None),
    ],
)
def test_parameters_of_gradients(body: str, parameter: str | None) -> None:
    found = [gradient.parameter for _, gradient in checked_gradients(_file(body))]
    assert found == ([parameter] if parameter else [])


def test_shard_maps_that_do_not_check_are_left_out() -> None:
    text = "def f(w): return jax.grad(loss)(w)\njax.shard_map(f, mesh=m, check_vma=False)\n"
    assert list(checked_gradients(parse(HEAD + text))) == []


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("return w.sum()", False),
        ("return lax.psum(w, 'i')", True),
        ("return inner(w)", True),
        ("return unknown(w)", False),
        ("return lax.all_gather(w, 'i')", False),
    ],
)
def test_losses_with_a_reduction(loss: str, expected: bool) -> None:
    file = _file("return jax.grad(loss)(w, x)", f"{HEAD}def loss(w, x):\n    {loss}\n")
    ((_, gradient),) = checked_gradients(file)
    assert loss_is_reduced(gradient) is expected


@pytest.mark.parametrize(
    ("body", "reduction"),
    [
        ("g = jax.grad(loss)(w, x)\nreturn lax.pmean(g, 'i')", "lax.pmean(g, 'i')"),
        ("return lax.pmean(jax.grad(loss)(w, x), 'i')", "lax.pmean(jax.grad(loss)(w, x), 'i')"),
        ("l, g = jax.value_and_grad(loss)(w, x)\nreturn lax.psum(g, 'i')", "lax.psum(g, 'i')"),
        ("l, g = jax.value_and_grad(loss)(w, x)\nreturn lax.psum(l, 'i')", None),
        ("l, (g, h) = jax.value_and_grad(loss)(w, x)\nreturn lax.psum(g, 'i')", None),
        ("out = jax.value_and_grad(loss)(w, x)\nreturn lax.psum(out, 'i')", None),
        ("return lax.psum(jax.value_and_grad(loss)(w, x)[1], 'i')", None),
        (
            "g = jax.grad(loss)(w, x)\nreturn jax.tree.map(lambda v: lax.pmean(v, 'i'), g)",
            "jax.tree.map(lambda v: lax.pmean(v, 'i'), g)",
        ),
        ("g = jax.grad(loss)(w, x)\nreturn jax.tree.map(lambda v: v, g)", None),
        ("g = jax.grad(loss)(w, x)\nreturn jax.tree.map(unknown, g)", None),
        ("return jax.grad(loss)(w, x)", None),
    ],
)
def test_reductions_of_gradients(body: str, reduction: str | None) -> None:
    file = _file(body)
    ((_, gradient),) = checked_gradients(file)
    found = {ast.unparse(call) for call in reductions_of(file, gradient)} - {
        "lax.pmean(v, 'i')"  # inside the tree map
    }
    assert found == ({reduction} if reduction else set())
