"""Copies of one value on every device: how to create and read them.

``unreplicate`` means the same for every kind of leaf: it removes the leading axis and returns the
first row, the value of ``leaf[0]``; on one device as on many.

===========================  ==============================================================
leaf                         ``unreplicate`` returns
===========================  ==============================================================
one row per device           the row of the first device of this process, on that device
all rows on all devices      the first row, on the first device of this process
on one device                the first row, on that device
rows split over devices      ``leaf[0]``: there is no replica to read
NumPy                        ``leaf[0]``, a view
0-d                          itself, as there is no axis: the copy on the first device
a Python scalar              itself
===========================  ==============================================================

flax 0.12 differs in the second line: it returns all rows on several devices, but the first row on
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from shardlift.arrays.placement import AXIS, device_put_replicated
from shardlift.arrays.resharding import is_key


def replicate(tree: Any, devices: Sequence[jax.Device] | None = None, axis_name: Any = AXIS) -> Any:
    """Put a copy of ``tree`` on each of ``devices``, all local ones by default.

    Like ``flax.jax_utils.replicate``; ``axis_name`` names the axis of the mesh. See
    ``device_put_replicated``.

    >>> import jax
    >>> from shardlift import replicate
    >>> replicate(jax.numpy.ones(3)).shape == (jax.local_device_count(), 3)
    True
    """
    return device_put_replicated(tree, devices or jax.local_devices(), axis_name)


def unreplicate(tree: Any) -> Any:
    """Read one of the copies that ``replicate``, or a pmap, left on the devices.

    Like ``flax.jax_utils.unreplicate``, which is ``x[0]``, but the copy is read from the first
    local device: nothing is gathered, and in a job of many processes nothing is sent between
    them.

    Args:
        tree: leaves with a leading device axis. The module describes each kind of leaf.

    >>> from shardlift import replicate, unreplicate
    >>> unreplicate(replicate({"step": 3}))["step"].item()
    3
    """
    return jax.tree_util.tree_map_with_path(_first_row, tree)


def host_bits(block: jax.Array) -> np.ndarray[Any, Any]:
    """The values of a block, on the host; for typed keys, their data."""
    return np.asarray(jax.random.key_data(block) if is_key(block) else block)


def _first_row(path: Any, leaf: Any) -> Any:
    ndim = getattr(leaf, "ndim", 0)
    if ndim and not leaf.shape[0]:
        raise ValueError(
            f"the leaf {jax.tree_util.keystr(path) or '<leaf>'} has shape {leaf.shape}: it has no "
            "rows, so there is no first replica."
        )
    if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer):
        block = leaf.addressable_data(0)
        if not ndim:
            return block
        if block.shape[1:] == leaf.shape[1:]:
            return _row(block)
    return leaf[0] if ndim else leaf


@jax.jit
def _row(block: jax.Array) -> jax.Array:
    return block[0]
