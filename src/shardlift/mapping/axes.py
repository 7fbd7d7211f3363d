"""From ``in_axes`` and ``out_axes`` to one axis per leaf, and the checks on them.

A leaf's axis is an int, the dimension that is spread over the devices, or ``None``: the
whole leaf goes to every device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec

from shardlift.mapping.pmap_options import PmapOptions, flatten_axes, positional_names

Axis = int | None
Names = Callable[[], Iterable[str]]  # the names of leaves, for messages only: they take time


class Call(NamedTuple):
    """The arguments of one call, flattened."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: list[Any]  # of the arguments that are not static
    tree: Any
    axes: list[Axis]
    size: int  # the number of rows: of devices along the pmap's own axis


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


def leaf_axes(options: PmapOptions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Axis]:
    """One axis for each leaf of the arguments that are not static; of keyword arguments, axis 0.

    Axes that are counted from the end are counted from the front here.
    """
    in_axes = options.in_axes
    if options.static and isinstance(in_axes, tuple):  # it may count the static ones
        in_axes = tuple(axes for k, axes in enumerate(in_axes) if k not in options.static)
    axes = prefix_leaves(in_axes, args, "in_axes")
    axes += [0] * len(jax.tree.leaves(kwargs))
    if any(axis is not None and axis < 0 for axis in axes):
        for k, leaf in enumerate(jax.tree.leaves((args, kwargs))):
            axis, rank = axes[k], len(shape_of(leaf))
            if axis is not None and -rank <= axis < 0:
                axes[k] = axis + rank
    return axes


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
    different = "types"
    if type(part) is type(full):
        sequence = isinstance(part, list | tuple)
        different = f"lengths of {type(part).__name__}" if sequence else "children"
    # JAX counts in_axes within the pair (positional, keyword): its tests, and people who search
    # for the message, use that path.
    jax_path = f"pmap {what}{'[0]' if inputs else ''}{where}"
    other = "arguments" if inputs else "output"
    hint = (
        " Static arguments are counted in in_axes. Keyword arguments are not: each argument "
        "passed by keyword is mapped over its leading axis."
    )
    return (
        f"pytree structure error: different {different} at key path\n"
        f"    {jax_path}\n"
        f"{what} does not fit the {other} of the pmapped function: {what}{where} is "
        f"{_describe(part)}, but the {other} there {'are' if inputs else 'is'} "
        f"{_describe(full)}. {what} must be a tree prefix of the {other}: an int or None stands "
        f"for everything below it.{hint if inputs else ''}"
    )


def _first_mismatch(
    prefix: Any, tree: Any, path: tuple[Any, ...]
) -> tuple[tuple[Any, ...], Any, Any]:
    """The first place where ``prefix`` is not a prefix of ``tree``."""
    children: list[Any] = [
        jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda x, top=node: x is not top)
        for node in (prefix, tree)
    ]
    (below, shape), (below_tree, shape_tree) = children
    if shape != shape_tree:
        return path, prefix, tree
    for (key, part), (_, full) in zip(below, below_tree, strict=True):
        if part is not None and not jax.tree_util.all_leaves([part]):
            try:
                flatten_axes(part)[1].flatten_up_to(full)
            except ValueError:
                return _first_mismatch(part, full, path + key)
    return path, prefix, tree


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
    names = positional_names(fun)
    roots = [names[n] if n < len(names) else f"args[{n}]" for n in numbers]
    leaf_names: list[str] = []
    for root, arg in [*zip(roots, args, strict=True), *sorted(kwargs.items())]:  # as in a tree
        paths = jax.tree_util.tree_flatten_with_path(arg)[0]
        leaf_names += [root + jax.tree_util.keystr(path) for path, _ in paths]
    return leaf_names


def mapped_size(leaves: Sequence[Any], axes: Sequence[Axis], names: Names) -> int | None:
    """The common size of all mapped axes, ``None`` where nothing is mapped."""
    size: int | None = None
    for k, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is None:
            continue
        shape = shape_of(leaf)
        if not -len(shape) <= axis < len(shape):
            raise ValueError(
                f"pmap was requested to map its argument {list(names())[k]} along axis {axis}, "
                f"which implies that its rank should be at least {max(axis + 1, -axis)}, but is "
                f"only {len(shape)} (its shape is {shape}). Give it in_axes=None to send all of it "
                "to every device, or an axis with one row per device."
            )
        if size is not None and size != shape[axis]:
            raise ValueError(_size_message(leaves, axes, names))
        size = shape[axis]
    return size


def _size_message(leaves: Sequence[Any], axes: Sequence[Axis], names: Names) -> str:
    by_size: dict[int, list[str]] = {}
    for leaf, axis, name in zip(leaves, axes, names(), strict=True):
        shape = shape_of(leaf)
        if axis is not None and -len(shape) <= axis < len(shape):
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
