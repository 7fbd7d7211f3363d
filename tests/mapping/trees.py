"""Containers and dtypes that a mapped function may meet."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np

DTYPES = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "int32": np.int32,
    "uint8": np.uint8,
    "bool": np.bool_,
    "complex64": np.complex64,
}


class Pair(NamedTuple):
    first: Any
    second: Any


@jax.tree_util.register_pytree_node_class
class Opaque:
    """A node without key paths."""

    def __init__(self, child: Any) -> None:
        self.child = child

    def __repr__(self) -> str:
        return f"Opaque({self.child!r})"

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        return (self.child,), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: tuple[Any]) -> Opaque:
        return cls(*children)
