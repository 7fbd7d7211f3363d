"""Batches with one part per device, under the names that flax has for them."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from shardlift.arrays.paths import leaf_paths
from shardlift.arrays.placement import AXIS, device_put_sharded


def shard(xs: Any) -> Any:
    """Split the leading axis of every leaf: ``(d * b, ...)`` to ``(d, b, ...)``, d local devices.

    NumPy leaves stay on the host, as a view; pmap moves each part to its device.

    >>> import jax, numpy as np
    >>> from shardlift import shard
    >>> d = jax.local_device_count()
    >>> shard({"image": np.zeros((2 * d, 28))})["image"].shape == (d, 2, 28)
    True
    """
    count = jax.local_device_count()
    structure: Any = jax.tree.structure(xs)
    return structure.unflatten([_split(path, leaf, count) for path, leaf in leaf_paths(xs)])


def _split(path: str, leaf: Any, count: int) -> Any:
    shape = getattr(leaf, "shape", ())
    if not shape or shape[0] % count:
        raise ValueError(
            f"the leaf {path} has shape {tuple(shape)}, which does not split over {count} local "
            f"devices: its leading axis must be a multiple of {count}. "
            "pad_shard_unpad pads a short last batch."
        )
    return leaf.reshape((count, shape[0] // count, *shape[1:]))


def prefetch_to_device(
    iterator: Iterable[Any],
    size: int,
    devices: Sequence[jax.Device] | None = None,
    axis_name: Any = AXIS,
) -> Iterator[Any]:
    """Yield the items of ``iterator``, placed on the devices ``size`` items ahead of their use.

    Args:
        iterator: trees of arrays whose leading axis has one row for each device.
        size: how many items to place ahead; 2 is enough on a GPU, and more does not help on a TPU.
        devices: all local ones by default.
        axis_name: the name of the axis of the mesh.

    >>> import jax, numpy as np
    >>> from shardlift import prefetch_to_device, shard
    >>> d = jax.local_device_count()
    >>> batches = (shard(np.full((d, 2), i)) for i in range(3))
    >>> [int(x.addressable_data(0)[0, 0, 0]) for x in prefetch_to_device(batches, 2)]
    [0, 1, 2]
    """
    placed_on = devices or jax.local_devices()
    source = iter(iterator)
    if size < 1:
        raise ValueError(f"prefetch_to_device(size={size}) would yield nothing: size is 1 or more")
    queue: deque[Any] = deque()

    def fill(n: int) -> None:
        for item in itertools.islice(source, n):
            queue.append(
                jax.tree.map(lambda x: device_put_sharded(list(x), placed_on, axis_name), item)
            )

    fill(size)
    while queue:
        yield queue.popleft()
        fill(1)


def pad_shard_unpad(
    wrapped: Callable[..., Any],
    static_argnums: Sequence[int] = (0,),
    static_argnames: Sequence[str] = (),
    static_return: bool = False,
) -> Callable[..., Any]:
    """Let a pmapped function take a batch of any size: pad it, split it, trim the result.

    Args:
        wrapped: a function of arguments ``(d, b, ...)`` that returns such arrays.
        static_argnums: positions of arguments that are passed unchanged; by default the first,
            which holds the parameters.
        static_argnames: names of keyword arguments that are passed unchanged.
        static_return: return the result unchanged, neither fetched nor trimmed.

    Returns:
        A function of arguments ``(n, ...)``, for any n, with one more keyword
        ``min_device_batch``: pad to at least so many rows per device, so that a short last batch
        does not compile again. The result is on the host, and has n rows.

    >>> import jax, numpy as np
    >>> from shardlift import pad_shard_unpad
    >>> double = pad_shard_unpad(lambda x: 2 * x, static_argnums=())
    >>> double(np.arange(3))
    array([0, 2, 4])
    """

    @functools.wraps(wrapped)
    def padded(*args: Any, min_device_batch: int | None = None, **kwargs: Any) -> Any:
        batch = {i: a for i, a in enumerate(args) if i not in static_argnums}
        named = {k: v for k, v in kwargs.items() if k not in static_argnames}
        sizes = {path: np.shape(leaf)[0] for path, leaf in leaf_paths((batch, named))}
        if len(set(sizes.values())) != 1:
            raise ValueError(
                f"pad_shard_unpad needs one batch size, but the leading axes are {sizes}. "
                "List arguments that are not batches in static_argnums or static_argnames."
            )
        rows = next(iter(sizes.values()))
        part = max(-(-rows // jax.local_device_count()), min_device_batch or 0)
        batch, named = jax.tree.map(lambda x: _pad(x, part), (batch, named))
        out = wrapped(*(batch.get(i, a) for i, a in enumerate(args)), **(kwargs | named))
        if static_return:
            return out
        # Fetched before it is trimmed: trimming on the device would compile once for each size.
        host = jax.device_get(out)
        return jax.tree.map(lambda x: x.reshape((-1, *x.shape[2:]))[:rows], host)

    return padded


def _pad(x: Any, part: int) -> Any:
    count = jax.local_device_count()
    rows = np.shape(x)[0]
    if missing := count * part - rows:
        x = np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)])
    return x.reshape((count, part, *x.shape[1:]))
