"""Gradients inside a mapped body: by which parameter, through which collectives."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardlift.source.file import File
from shardlift.source.idioms import collectives
from shardlift.source.libraries import GRADS, REDUCTIONS, TREE_MAPS
from shardlift.source.scopes import Function, argument_at
from shardlift.source.shard_maps import ShardMap
from shardlift.source.sites import function_of
from shardlift.source.values import Argument, Constant, Known, Result


@dataclass(frozen=True)
class Gradient:
    """A call `jax.grad(loss)(w, …)` inside a body."""

    call: ast.Call
    body: Function
    parameter: str  # the parameter of the body that `w` is
    loss: Known
    with_value: bool


def checked_gradients(file: File) -> Iterator[tuple[ShardMap, Gradient]]:
    """Every gradient inside the body of a shard_map with `check_vma=True`."""
    for shard_map in file.shard_maps:
        if shard_map.checks_vma and shard_map.function is not None:
            for gradient in gradients(file, shard_map.function):
                yield shard_map, gradient


def gradients(file: File, body: Function) -> Iterator[Gradient]:
    """Every gradient in a body with respect to one of the body's own parameters."""
    for call in file.index.calls_in[body]:
        made = file.only(call.func)
        if not isinstance(made, Result) or made.path not in GRADS or not made.call.args:
            continue
        loss = function_of(made.file, made.call.args[0])
        argnums = argument_at(made.call, 1, "argnums")
        number = made.file.only(argnums) if argnums is not None else Constant(0)
        place = number.value if isinstance(number, Constant) else None
        if loss is None or not isinstance(place, int) or place >= len(call.args):
            continue
        value = file.only(call.args[place])
        if isinstance(value, Argument) and value.function is body:
            with_value = made.path == "jax.value_and_grad"
            yield Gradient(call, body, value.node.arg, loss, with_value)


def loss_is_reduced(gradient: Gradient) -> bool:
    """Whether the loss contains a reduction, itself or in a function that it calls."""
    node, file = gradient.loss.node, gradient.loss.file
    if any(name in REDUCTIONS for _, name in collectives(file, node)):
        return True
    called = (file.only(call.func) for call in file.index.calls_in[node])
    return any(isinstance(v, Known) and any(collectives(v.file, v.node)) for v in called)


def reductions_of(file: File, gradient: Gradient) -> Iterator[ast.Call]:
    """The collectives of the body that reduce this gradient."""
    for call in file.index.calls_in[gradient.body]:
        name = file.called(call)
        if name in REDUCTIONS and call.args and _is_gradient(file, call.args[0], gradient):
            yield call
        elif name in TREE_MAPS and len(call.args) == 2:
            over = call.args[0].body if isinstance(call.args[0], ast.Lambda) else None
            if file.called(over) in REDUCTIONS and _is_gradient(file, call.args[1], gradient):
                yield call


def _is_gradient(file: File, node: ast.expr, gradient: Gradient) -> bool:
    if not gradient.with_value:
        return file.definition(node) is gradient.call
    if not isinstance(node, ast.Name):
        return False
    parent = file.index.parents.get(gradient.call)
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    pairs = [t.elts for t in targets if isinstance(t, ast.Tuple) and len(t.elts) == 2]
    return any(isinstance(second, ast.Name) and second.id == node.id for _, second in pairs)
