"""What shard_map bodies that were written for pmap do with blocks that have the device axis."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from shardlift.check.pmap_bodies import block_uses
from shardlift.source.file import File
from shardlift.source.model import GUIDE, Level, Match, Rule
from shardlift.source.shard_maps import NAMES

_REDUCTIONS = frozenset(
    (
        *("sum", "mean", "max", "min", "prod", "std", "var", "all", "any", "median"),
        *("argmax", "argmin", "amax", "amin"),
    )
)
_PRODUCTS = frozenset(
    f"jax.numpy.{name}"
    for name in ("dot", "vdot", "inner", "outer", "matmul", "einsum", "tensordot", "kron", "cross")
) | {"jax.lax.dot"}
_SHAPES = frozenset({"reshape", "transpose", "squeeze", "ravel", "swapaxes"})
_METHODS = _SHAPES | {"flatten"}
_RESHAPING = _SHAPES | {"expand_dims", "moveaxis", "flip", "roll"}
_KEYED = frozenset(
    f"jax.random.{name}"
    for name in ("normal", "uniform", "split", "fold_in", "bernoulli", "randint")
)
_MORE = "which has one axis more than under pmap"


def _reductions(file: File) -> Iterator[Match]:
    """`jnp.sum(x)` or `x.sum()` of a block, without an axis."""
    for use, name, (block, *_) in block_uses(file):
        last, is_function = name.removeprefix("jax.numpy."), name.startswith("jax.numpy.")
        if not isinstance(use, ast.Call) or last not in _REDUCTIONS:
            continue
        if len(use.args) + len(use.keywords) <= int(is_function):
            yield Match(use, f"{last} over the whole of `{block.id}`, including the device axis")


def _contractions(file: File) -> Iterator[Match]:
    """Products that have the block itself as an operand."""
    for use, name, (block, *_) in block_uses(file):
        if name in _PRODUCTS or (name == "dot" and isinstance(use, ast.Call)):
            yield Match(use, f"{name.rpartition('.')[2]} of `{block.id}`, {_MORE}")
        elif isinstance(use, ast.BinOp) and isinstance(use.op, ast.MatMult):
            yield Match(use, f"@ with `{block.id}`, {_MORE}")


def _reshapes(file: File) -> Iterator[Match]:
    """Calls of these functions on the block itself, and `.T`."""
    for use, name, (block, *_) in block_uses(file):
        last = name.removeprefix("jax.numpy.")
        is_method = name in _METHODS and isinstance(use, ast.Call)
        if is_method or (last != name and last in _RESHAPING):
            yield Match(use, f"{last} of `{block.id}`, {_MORE}")
        elif name in ("T", "mT"):
            yield Match(use, f"`{file.text(use)}` also transposes the device axis")


def _layers(file: File) -> Iterator[Match]:
    """`model.apply(params, x)` with a block as data, and random functions with a block as key."""
    for use, name, blocks in block_uses(file):
        if not isinstance(use, ast.Call):
            continue
        if name in _KEYED:
            if use.args[0] in blocks:
                yield Match(use, f"`{file.text(use.args[0])}` is an array of one key, not a key")
        elif isinstance(use.func, ast.Attribute) and use.func.attr == "apply":
            data = [argument for argument in use.args[1:] if argument in blocks]
            if data:
                text = f"a layer gets `{file.text(data[0])}`, which has the device axis"
                yield Match(use, text)


def _rule(visit: Callable[[File], Iterator[Match]], **rest: Any) -> Rule:
    reference = f"{GUIDE}#update-your-mapped-function"
    advice = "Remove the axis first, as in x = x.squeeze(0), and add it to the result."
    shared = {"level": Level.BROKEN, "reference": reference, "advice": advice, "names": NAMES}
    return Rule(visit=visit, **{**shared, **rest})


RULES = (
    _rule(
        _reductions,
        code="SL705",
        summary="a reduction without axis over a block with the device axis",
    ),
    _rule(
        _contractions,
        code="SL706",
        summary="dot, matmul or einsum of a block that keeps the device axis",
        advice="Remove the axis first, as in jnp.dot(x.squeeze(0), w), and add it to the result.",
    ),
    _rule(
        _reshapes,
        code="SL707",
        summary="reshape, transpose or squeeze of a block with the device axis",
    ),
    _rule(
        _layers,
        code="SL708",
        summary="a layer or a random function on a block with the device axis",
        advice="Remove the axis first: x.squeeze(0), key[0].",
    ),
)
