"""From ``in_axes`` and ``out_axes`` to one axis per leaf, and the checks on them.

A leaf's axis is an int, the dimension that is spread over the devices, or ``None``: the
whole leaf goes to every device.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from shardlift.mapping.pmap_options import flatten_axes

Axis = int | None
Path = tuple[Any, ...]


def shape_of(leaf: Any) -> tuple[int, ...]:
    """The shape of an array, an abstract array or a Python scalar."""
    try:
        return tuple(leaf.shape)
    except AttributeError:
        return np.shape(leaf)


def spec_of(axis: Axis, label: str) -> PartitionSpec:
    """The partition spec of a leaf whose dimension ``axis`` is split over the mesh axis ``label``.

    >>> spec_of(1, "i") == PartitionSpec(None, "i"), spec_of(None, "i") == PartitionSpec()
    (True, True)
    """
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, label)


def specs_of(axes: Any, label: str) -> Any:
    """The same tree with a spec for every axis; the caller has resolved negative axes."""
    leaves, tree = flatten_axes(axes)
    return tree.unflatten([spec_of(axis, label) for axis in leaves])


def without_static(in_axes: Any, static: Sequence[int]) -> Any:
    """``in_axes`` for the arguments that are not static; it may count the static ones."""
    if not static or not isinstance(in_axes, tuple):
        return in_axes
    return tuple(axes for k, axes in enumerate(in_axes) if k not in static)


def leaf_axes(in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Axis]:
    """One non-negative axis for each leaf of ``(args, kwargs)``; keyword arguments have axis 0.

    >>> leaf_axes((0, None), (np.ones((8, 2)), {"a": 1.0}), {"b": np.ones(8)})
    [0, None, 0]
    >>> leaf_axes(-1, (np.ones((2, 8)),), {})
    [1]
    """
    axes = prefix_leaves(in_axes, args, "in_axes")
    axes += [0] * len(jax.tree.leaves(kwargs))
    if any(axis is not None and axis < 0 for axis in axes):
        leaves = jax.tree.leaves((args, kwargs))
        axes = [_from_front(axis, leaf) for axis, leaf in zip(axes, leaves, strict=True)]
    return axes


def _from_front(axis: Axis, leaf: Any) -> Axis:
    rank = len(shape_of(leaf))
    return axis if axis is None or axis >= 0 or axis + rank < 0 else axis + rank


def prefix_leaves(prefix: Any, tree: Any, what: str) -> list[Axis]:
    """Spread the prefix tree ``prefix`` over the leaves of ``tree``."""
    if type(prefix) is int or prefix is None:
        return [prefix] * len(jax.tree.leaves(tree))
    axes, prefix_tree = flatten_axes(prefix)
    try:
        subtrees = prefix_tree.flatten_up_to(tree)
    except ValueError:
        raise ValueError(_prefix_message(prefix, tree, what)) from None
    return [
        axis for axis, subtree in zip(axes, subtrees, strict=True) for _ in jax.tree.leaves(subtree)
    ]


def _prefix_message(prefix: Any, tree: Any, what: str) -> str:
    path, part, full = _first_mismatch(prefix, tree, ())
    where = jax.tree_util.keystr(path)
    inputs = what == "in_axes"
    # JAX counts in_axes within the pair (positional, keyword): its tests, and people who search
    # for the message, use that path.
    jax_path = f"pmap {what}{'[0]' if inputs else ''}{where}"
    other = "arguments" if inputs else "output"
    hint = (
        " Static arguments are counted in in_axes. Keyword arguments are not: each argument "
        "passed by keyword is mapped over its leading axis."
    )
    return (
        f"pytree structure error: different {_difference(part, full)} at key path\n"
        f"    {jax_path}\n"
        f"{what} does not fit the {other} of the pmapped function: {what}{where} is "
        f"{_describe(part)}, but the {other} there {'are' if inputs else 'is'} "
        f"{_describe(full)}. {what} must be a tree prefix of the {other}: an int or None stands "
        f"for everything below it.{hint if inputs else ''}"
    )


def _difference(part: Any, full: Any) -> str:
    if type(part) is not type(full):
        return "types"
    return f"lengths of {type(part).__name__}" if isinstance(part, list | tuple) else "children"


def _first_mismatch(prefix: Any, tree: Any, path: Path) -> tuple[Path, Any, Any]:
    """The first place where ``prefix`` is not a prefix of ``tree``."""
    below, shape = _children(prefix)
    below_tree, shape_tree = _children(tree)
    if shape != shape_tree:
        return path, prefix, tree
    for (key, part), (_, full) in zip(below, below_tree, strict=True):
        if part is not None and not jax.tree_util.all_leaves([part]):
            try:
                flatten_axes(part)[1].flatten_up_to(full)
            except ValueError:
                return _first_mismatch(part, full, path + key)
    return path, prefix, tree


def _children(tree: Any) -> tuple[list[tuple[Path, Any]], Any]:
    return jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda node: node is not tree)


def _describe(tree: Any) -> str:
    kind = type(tree).__name__
    if isinstance(tree, dict):
        return f"a dict with keys {list(tree)}"
    return f"a {kind} of length {len(tree)}" if isinstance(tree, list | tuple) else f"a {kind}"


def argument_names(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], numbers: Sequence[int]
) -> list[str]:
    """The name of every leaf of ``(args, kwargs)``, as a reader of ``fun`` would write it.

    ``numbers`` are the positions that ``args`` have in the call of ``fun``.

    >>> argument_names(lambda state, batch: None, ({"w": 1.0}, [2, 3]), {}, [0, 1])
    ["state['w']", 'batch[0]', 'batch[1]']
    """
    try:
        names = [
            p.name
            for p in inspect.signature(fun).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    roots = [names[n] if n < len(names) else f"args[{n}]" for n in numbers]
    leaf_names: list[str] = []
    for root, arg in [*zip(roots, args, strict=True), *sorted(kwargs.items())]:  # as in a tree
        paths = jax.tree_util.tree_flatten_with_path(arg)[0]
        leaf_names += [root + jax.tree_util.keystr(path) for path, _ in paths]
    return leaf_names


def mapped_size(
    leaves: Sequence[Any], axes: Sequence[Axis], names: Callable[[], Iterable[str]]
) -> int | None:
    """The common size of all mapped axes, ``None`` where nothing is mapped.

    ``names`` returns the leaves' names; it is called only for an error message.
    """
    size: int | None = None
    for leaf, axis in zip(leaves, axes, strict=True):
        if axis is None:
            continue
        shape = shape_of(leaf)
        if not -len(shape) <= axis < len(shape):
            raise ValueError(_rank_message(leaves, axes, names))
        if size is None:
            size = shape[axis]
        elif size != shape[axis]:
            raise ValueError(_size_message(leaves, axes, names))
    return size


def _rank_message(
    leaves: Sequence[Any], axes: Sequence[Axis], names: Callable[[], Iterable[str]]
) -> str:
    for leaf, axis, name in zip(leaves, axes, names(), strict=True):
        shape = shape_of(leaf)
        if axis is not None and not -len(shape) <= axis < len(shape):
            needed = axis + 1 if axis >= 0 else -axis
            return (
                f"pmap was requested to map its argument {name} along axis {axis}, which implies "
                f"that its rank should be at least {needed}, but is only {len(shape)} (its shape "
                f"is {shape}). Give it in_axes=None to send all of it to every device, or an axis "
                "with one row per device."
            )
    raise AssertionError("no argument has too few dimensions")


def _size_message(
    leaves: Sequence[Any], axes: Sequence[Axis], names: Callable[[], Iterable[str]]
) -> str:
    by_size: dict[int, list[str]] = {}
    for leaf, axis, name in zip(leaves, axes, names(), strict=True):
        if axis is not None:
            shape = shape_of(leaf)
            by_size.setdefault(shape[axis], []).append(f"axis {axis} of {name}, shape {shape}")
    lines = [
        f"  * size {size}: {'; '.join(where[:5])}"
        + (f"; and {len(where) - 5} more" if len(where) > 5 else "")
        for size, where in by_size.items()
    ]
    return (
        "pmap got inconsistent sizes for array axes to be mapped:\n"
        + "\n".join(lines)
        + "\nEvery mapped argument needs one row per device; give in_axes=None for an argument "
        "that every device should get whole."
    )
