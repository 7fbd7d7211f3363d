"""Copies of one value on every device: how to create, read and compare them.

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

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardlift.arrays.paths import leaf_paths
from shardlift.arrays.placement import AXIS, device_put_replicated


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


def unreplicate(tree: Any, check: bool = False) -> Any:
    """Read one of the copies that ``replicate``, or a pmap, left on the devices.

    Like ``flax.jax_utils.unreplicate``, which is ``x[0]``, but the copy is read from the first
    local device: nothing is gathered, and in a job of many processes nothing is sent between
    them.

    Args:
        tree: leaves with a leading device axis. The module describes each kind of leaf.
        check: compare the copies of this process bit by bit first, and raise ``ValueError`` with
            the first leaf that differs and the devices that disagree with the first.

    >>> from shardlift import replicate, unreplicate
    >>> unreplicate(replicate({"step": 3}), check=True)["step"].item()
    3
    """
    if check:
        _check_equal(tree)
    return jax.tree_util.tree_map_with_path(_first_row, tree)


def differing(leaf: Any) -> list[str]:
    """The places on this process whose copies of ``leaf`` differ, in any bit, from the first.

    A copy is a row of the leading axis; where devices hold the same rows, each holds copies. A
    0-d leaf has one copy per device.

    >>> import jax
    >>> from shardlift.arrays import device_put_sharded, differing
    >>> first = jax.local_devices()[:1]
    >>> differing(device_put_sharded([float("nan")], first))
    []
    """
    reference: dict[Any, Any] = {}
    bad: list[str] = []
    for place, part, rows in _blocks(leaf):
        for row in rows if rows.ndim else [rows]:
            bits = np.ascontiguousarray(row).tobytes()
            if reference.setdefault(part, bits) != bits and place not in bad:
                bad.append(place)
    return bad


def _blocks(leaf: Any) -> Iterator[tuple[str, Any, Any]]:
    """Each local block of rows: its device, the part of the row that it holds, the rows."""
    if not isinstance(leaf, jax.Array):
        yield "the host", None, np.asarray(leaf)
        return
    for shard in leaf.addressable_shards:
        part = tuple((s.start or 0, s.stop) for s in shard.index[1:])
        yield device_name(shard.device), part, host_bits(shard.data)


def device_name(device: jax.Device) -> str:
    """``cpu:3``."""
    return f"{device.platform}:{device.id}"


def host_bits(block: jax.Array) -> np.ndarray[Any, Any]:
    """The values of a block, on the host; for typed keys, their data."""
    if jnp.issubdtype(block.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(block))
    return np.asarray(block)


def _check_equal(tree: Any) -> None:
    for path, leaf in leaf_paths(tree):
        bad = differing(leaf) if hasattr(leaf, "ndim") else []
        if bad:
            first = next(_blocks(leaf))[0]
            raise ValueError(
                f"the leaf {path} is not the same on all devices: {', '.join(bad)} "
                f"disagree{'s' if len(bad) == 1 else ''} with {first}. Its copies were updated "
                "differently: look for a missing pmean or psum, or read the rows one by one."
            )


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
