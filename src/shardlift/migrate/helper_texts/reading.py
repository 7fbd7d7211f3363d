"""The first row of arrays that have one row on each device, read where it lies."""

from typing import Any

import jax
import numpy as np


def unreplicate(tree: Any) -> Any:
    """The first row of every leaf, read from one device without a gather."""

    def first(x: Any) -> Any:
        if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer):
            block = x.addressable_data(0)
            x = block if block.shape[1:] == x.shape[1:] else x
        return x[0] if np.ndim(x) else x

    return jax.tree.map(first, tree)
