"""The first call of a program: arguments that come back as outputs get the outputs' sharding.

jit compiles one program for each layout of its arguments. A training state comes to its first
step from NumPy, from one device or from a mesh with an axis of another name, and to the second
step from the first one: two programs, and the first is used once (jax 0.10 to 0.12). Laid out
before the first call, the state needs only one program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from shardlift.arrays.resharding import rewrap
from shardlift.mapping.axes import Axis
from shardlift.mapping.call import Call
from shardlift.mapping.plan import Plan


def lay_out(plan: Plan, call: Call, donated: Sequence[bool]) -> list[Any] | None:
    """The leaves of a first call, laid out as outputs where they come back; None: no change.

    A tree of arrays, or one donated array, comes back if an output of the program has the same
    structure, shapes and dtypes. If nothing has to be laid out, the trace that this takes is
    not wasted: the call itself uses it.
    """
    several = len(call.leaves) > 1 or any(donated)
    pairs = zip(call.leaves, call.axes, strict=True)
    if not several or not any(_needs_layout(leaf, plan, axis) for leaf, axis in pairs):
        return None
    out = plan.program.eval_shape(*call.args, **call.kwargs)
    leaves = list(call.leaves)
    for k in returned_leaves(_number_arguments(call), call.leaves, donated, out):
        if _needs_layout(leaves[k], plan, call.axes[k]):
            leaves[k] = _lay_out_leaf(leaves[k], plan, call.axes[k])
    changed = any(new is not old for new, old in zip(leaves, call.leaves, strict=True))
    return leaves if changed else None


def returned_leaves(
    arguments: Iterable[Any], leaves: Sequence[Any], donated: Sequence[bool], out: Any
) -> Iterator[int]:
    """The numbers of the leaves in parts of the arguments that have the form of an output.

    ``arguments`` hold the numbers of their leaves in place of the leaves.

    >>> import numpy as np
    >>> a, b = np.zeros(3), np.zeros(5)
    >>> list(returned_leaves([{"v": 0, "w": 1}, 2], [a, b, b], [False] * 3, ({"v": a, "w": b}, b)))
    [0, 1]
    """
    unmatched = Counter(_form(part) for part in _parts(out))
    for argument in arguments:
        yield from _match(argument, leaves, donated, unmatched)


def _match(
    part: Any, leaves: Sequence[Any], donated: Sequence[bool], unmatched: Counter[Any]
) -> Iterator[int]:
    numbers = jax.tree.leaves(part)
    if not numbers:
        return
    form = _form(jax.tree.map(leaves.__getitem__, part))
    if unmatched[form] and (len(numbers) > 1 or donated[numbers[0]]):
        unmatched[form] -= 1
        yield from numbers
        return
    for child in _children(part):
        yield from _match(child, leaves, donated, unmatched)


def _number_arguments(call: Call) -> list[Any]:
    args, kwargs = jax.tree.unflatten(call.tree, range(len(call.leaves)))
    return [*args, *kwargs.values()]


def _parts(tree: Any) -> Iterator[Any]:
    yield tree
    for child in _children(tree):
        yield from _parts(child)


def _children(tree: Any) -> Sequence[Any]:
    """The children of a tuple, list or dict; other nodes are not looked into."""
    if isinstance(tree, dict):
        return list(tree.values())
    return tree if isinstance(tree, (tuple, list)) else ()


def _form(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(_type(leaf) for leaf in leaves)


def _type(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):  # as jit takes it: 32 bits, unless 64 are enabled
        return leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)
    return np.shape(leaf), getattr(leaf, "dtype", type(leaf))


def _needs_layout(leaf: Any, plan: Plan, axis: Axis) -> bool:
    """Is it not placed yet, or under another sharding than an output, though equivalent?"""
    if isinstance(leaf, np.ndarray):
        return True
    if not isinstance(leaf, jax.Array) or leaf.is_deleted():
        return False
    wanted = plan.sharding(axis)
    if leaf.committed:
        return leaf.sharding != wanted and leaf.sharding.is_equivalent_to(wanted, leaf.ndim)
    return True


def _lay_out_leaf(leaf: Any, plan: Plan, axis: Axis) -> Any:
    wanted = plan.sharding(axis)
    if isinstance(leaf, jax.Array) and leaf.committed:
        return rewrap(leaf, wanted)
    return jax.device_put(leaf, wanted)
