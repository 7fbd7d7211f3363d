"""The number of rows of a call, read from one of its leaves as cheaply as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.tree_util import DictKey, GetAttrKey, SequenceKey

from shardlift.mapping.axes import Axis

Counter = Callable[[tuple[Any, ...]], int | None]


def row_counter(tree: Any, axes: Sequence[Axis], size: int, static: Sequence[int]) -> Counter:
    """Build a function that counts the rows of a call; it returns None if it cannot tell.

    ``tree`` is the structure of ``(positional, keyword)`` arguments without the static ones.

    >>> tree = jax.tree.structure((({"w": 0}, [0]), {}))
    >>> row_counter(tree, [None, 1], 8, ())(({"w": 3.0}, [jax.numpy.ones((2, 8))]))
    8
    """
    paths = [path for path, _ in _paths(tree)]
    mapped = [(path, axis) for path, axis in zip(paths, axes, strict=True) if axis is not None]
    if not mapped:
        return lambda args: size  # noqa: ARG005
    path, axis = min(mapped, key=lambda pair: len(pair[0]))
    number = _with_static(path[1].idx, static)
    steps = path[2:]

    def rows(args: tuple[Any, ...]) -> int | None:
        try:
            leaf = args[number]
            for step in steps:
                leaf = _take(leaf, step)
            return leaf.shape[axis]
        except (AttributeError, LookupError, TypeError):
            return None

    return rows


def _paths(tree: Any) -> list[tuple[Any, Any]]:
    numbered = tree.unflatten(range(tree.num_leaves))
    return jax.tree_util.tree_flatten_with_path(numbered)[0]


def _take(node: Any, key: Any) -> Any:
    if isinstance(key, DictKey):
        return node[key.key]
    if isinstance(key, SequenceKey):
        return node[key.idx]
    if isinstance(key, GetAttrKey):
        return getattr(node, key.name)
    raise LookupError(key)


def _with_static(number: int, static: Sequence[int]) -> int:
    """The position in the call of the ``number``-th argument that is not static."""
    for k in static:
        if k <= number:
            number += 1
    return number
