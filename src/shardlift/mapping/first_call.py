"""The first call of a program: what it will give back is laid now as it will come back.

jit keeps a program for each way in which its arguments lie. A training state comes to its first
step from NumPy, from one device or from a mesh with an axis of another name, and to the second
step from the first one: two programs, of which one is used once (jax 0.10 to 0.12). Laid out
before the first call, it needs one.
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


def settle(plan: Plan, call: Call, donated: Sequence[bool]) -> list[Any] | None:
    """The leaves of a first call, those that come back laid as they will be; None: they are.

    What comes back is told by its form: a tree of arrays, or one donated array, which an output
    of the program equals in structure, shapes and dtypes. Tracing for that is not wasted, unless
    something is laid out: the call itself finds the trace.
    """
    several = len(call.leaves) > 1 or any(donated)
    if not several or not any(_can_settle(leaf, plan, axis) for leaf, axis in _pairs(call)):
        return None
    out = plan.program.eval_shape(*call.args, **call.kwargs)
    back = list(returning(_numbered(call), call.leaves, donated, out))
    laid = list(call.leaves)
    for k in back:
        if _can_settle(laid[k], plan, call.axes[k]):
            laid[k] = _lay(laid[k], plan, call.axes[k])
    return laid if any(new is not old for new, old in zip(laid, call.leaves, strict=True)) else None


def returning(
    arguments: Iterable[Any], leaves: Sequence[Any], donated: Sequence[bool], out: Any
) -> Iterator[int]:
    """The numbers of the leaves in parts of the arguments that an output has the form of.

    ``arguments`` have the numbers of their leaves in the place of these.

    >>> import numpy as np
    >>> a, b = np.zeros(3), np.zeros(5)
    >>> list(returning([{"v": 0, "w": 1}, 2], [a, b, b], [False] * 3, ({"v": a, "w": b}, b)))
    [0, 1]
    """
    left = Counter(_form(part) for part in _parts(out))
    for argument in arguments:
        yield from _search(argument, leaves, donated, left)


def _search(
    part: Any, leaves: Sequence[Any], donated: Sequence[bool], left: Counter[Any]
) -> Iterator[int]:
    numbers = jax.tree.leaves(part)
    if not numbers:
        return
    form = _form(jax.tree.map(leaves.__getitem__, part))
    if left[form] and (len(numbers) > 1 or donated[numbers[0]]):
        left[form] -= 1
        yield from numbers
        return
    for child in _children(part):
        yield from _search(child, leaves, donated, left)


def _pairs(call: Call) -> Iterator[tuple[Any, Axis]]:
    return zip(call.leaves, call.axes, strict=True)


def _numbered(call: Call) -> list[Any]:
    args, kwargs = jax.tree.unflatten(call.tree, range(len(call.leaves)))
    return [*args, *kwargs.values()]


def _parts(tree: Any) -> Iterator[Any]:
    yield tree
    for child in _children(tree):
        yield from _parts(child)


def _children(tree: Any) -> Sequence[Any]:
    """What lies one level down, in the containers in which arguments and outputs are passed."""
    if isinstance(tree, dict):
        return list(tree.values())
    return tree if isinstance(tree, (tuple, list)) else ()


def _form(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(_type(leaf) for leaf in leaves)


def _type(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):  # as jit takes it: 32 bits, unless told otherwise
        return leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)
    return np.shape(leaf), getattr(leaf, "dtype", type(leaf))


def _can_settle(leaf: Any, plan: Plan, axis: Axis) -> bool:
    """Does it lie in another way than an output does, though on its devices, or nowhere yet?"""
    if isinstance(leaf, np.ndarray):
        return True
    if not isinstance(leaf, jax.Array) or leaf.is_deleted():
        return False
    wanted = plan.sharding(axis)
    if leaf.committed:
        return leaf.sharding != wanted and leaf.sharding.is_equivalent_to(wanted, leaf.ndim)
    return True


def _lay(leaf: Any, plan: Plan, axis: Axis) -> Any:
    wanted = plan.sharding(axis)
    if isinstance(leaf, jax.Array) and leaf.committed:
        return rewrap(leaf, wanted)
    return jax.device_put(leaf, wanted)
