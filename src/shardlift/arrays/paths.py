"""The names and types of leaves, for error messages and tables."""

from __future__ import annotations

from typing import Any

import jax


def leaf_paths(tree: Any) -> list[tuple[str, Any]]:
    """Each leaf with its path: ``[("['params']['w']", leaf), ...]``; a lone leaf is ``"<leaf>"``.

    >>> from shardlift.arrays.paths import leaf_paths
    >>> leaf_paths({"params": {"w": 1}, "step": 2})
    [("['params']['w']", 1), ("['step']", 2)]
    """
    flat = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(jax.tree_util.keystr(path) or "<leaf>", leaf) for path, leaf in flat]


def type_of(leaf: Any) -> str:
    """Dtype and shape of an array, as ``float32[8,4]``."""
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
