"""Removed keywords, passed on as the arguments that replaced them; ``None`` in ``tree_map``."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax

from shardlift._legacy.modules import when_imported
from shardlift._legacy.names import KEYWORDS
from shardlift._legacy.patches import Patches, Uses


def restore(patches: Patches, uses: Uses) -> None:
    """Let functions, and ``ClosedJaxpr``, take their old keywords."""
    for path, renamed in KEYWORDS.items():
        module, _, name = path.rpartition(".")
        accept = functools.partial(_accept_old, patches, uses, name, renamed)
        when_imported(module, patches, accept)
    _restore_closed_jaxpr(patches, uses)
    _restore_tree_map(patches, uses)
    _restore_broadcast_to(patches, uses)


def _accept_old(
    patches: Patches, uses: Uses, name: str, renamed: Mapping[str, str], module: types.ModuleType
) -> None:
    """``renamed``: keyword -> its name now; "" is the first argument, "-" is dropped."""
    with warnings.catch_warnings(action="ignore"):  # pjit is deprecated
        function = getattr(module, name)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        for old in renamed.keys() & options.keys():
            uses.note(f"{module.__name__}.{name}({old}=)")
            value, new = options.pop(old), renamed[old]
            if not new:
                args = (value, *args)
            elif new != "-":
                options[new] = value
        return function(*args, **options)

    patches.set(module, name, call)


def _restore_closed_jaxpr(patches: Patches, uses: Uses) -> None:
    """Let ``ClosedJaxpr(jaxpr=…, consts=…)`` work, as programs that rewrite jaxprs call it.

    Since 0.12 it is the class ``Jaxpr``, which takes a jaxpr and its constants by position only.
    """

    def change(core: types.ModuleType) -> None:
        kind: Any = core.Jaxpr
        if core.ClosedJaxpr is not kind:
            return
        stock = kind.__init__

        def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: N807
            if "jaxpr" in options:
                uses.note("jax.extend.core.ClosedJaxpr(jaxpr=)")
                args = (options.pop("jaxpr"), options.pop("consts", ()), *args)
            stock(self, *args, **options)

        patches.set(kind, "__init__", __init__)

    when_imported("jax.extend.core", patches, change)


def _restore_tree_map(patches: Patches, uses: Uses) -> None:
    """``tree_map(f, None, [1])`` is ``None``: an error since 0.4.34."""
    stock = jax.tree.map

    @functools.wraps(stock)
    def tree_map(f: Any, tree: Any, *rest: Any, is_leaf: Any = None) -> Any:
        try:
            return stock(f, tree, *rest, is_leaf=is_leaf)
        except ValueError:
            trees = _with_none_as_leaves(tree, rest, is_leaf)
            if trees is None:
                raise
        uses.note("jax.tree.map(f, None, tree)")
        leaves, structure = trees
        return structure.unflatten(None if row[0] is None else f(*row) for row in leaves)

    patches.set(jax.tree, "map", tree_map)
    patches.set(jax.tree_util, "tree_map", tree_map)


def _restore_broadcast_to(patches: Patches, uses: Uses) -> None:
    """``broadcast_to([1.0], shape)``: an error since 0.3.2."""
    stock = jax.numpy.broadcast_to

    @functools.wraps(stock)
    def broadcast_to(array: Any, *args: Any, **options: Any) -> jax.Array:
        if isinstance(array, (list, tuple)):
            uses.note("jax.numpy.broadcast_to(list)")
            array = jax.numpy.array(array)
        return stock(array, *args, **options)

    patches.set(jax.numpy, "broadcast_to", broadcast_to)


def _with_none_as_leaves(
    tree: Any, rest: tuple[Any, ...], is_leaf: Callable[[Any], bool] | None
) -> tuple[Any, Any] | None:
    """The leaves of the trees and their structure; None if they do not differ by ``None`` only."""
    ends = is_leaf or (lambda _: False)
    structure: Any
    leaves, structure = jax.tree.flatten(tree, lambda x: x is None or ends(x))
    strict = jax.tree.structure(tree, is_leaf)
    if all(_fits(strict, other) for other in rest):  # the error was the function's own
        return None
    if not all(_fits(structure, other) for other in rest):
        return None
    return zip(leaves, *map(structure.flatten_up_to, rest), strict=True), structure


def _fits(structure: Any, tree: Any) -> bool:
    try:
        structure.flatten_up_to(tree)
    except ValueError:
        return False
    return True
