"""A claim of the proof, held against the bits of a run on eight devices."""

import collections
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import shardlift
from shardlift._replication import NotProven, Replication

N = 8
HALVES = [[0, 1, 2, 3], [4, 5, 6, 7]]


def rows(*shape: int, seed: int = 0) -> jax.Array:
    """Another row on each device."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=(N, *shape)).astype(np.float32))


def same(*shape: int, seed: int = 1) -> jax.Array:
    """The same row on each device."""
    row = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return jnp.asarray(np.broadcast_to(row, (N, *shape)))


def bits(leaf: Any, count: int = N) -> list[bytes]:
    """The bytes of each row."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return [row.tobytes() for row in np.asarray(leaf).reshape(count, -1)]


def hold_against(found: Replication, out: Any) -> None:
    """Fail where devices that were said to be equal are not: along one axis counts too."""
    sizes = dict(found.axes)
    for (path, said), leaf in zip(found.outputs.items(), jax.tree.leaves(out), strict=True):
        along = said.along if isinstance(said, NotProven) else tuple(sizes)
        shown, groups = bits(leaf, math.prod(sizes.values())), collections.defaultdict(set)
        for k, place in enumerate(itertools.product(*map(range, sizes.values()))):
            rest = [x for x, name in zip(place, sizes, strict=True) if name not in along]
            groups[tuple(rest)].add(shown[k])
        assert all(len(group) == 1 for group in groups.values()), f"output{path} {said}\n{leaf}"


def proven(fun: Any, *args: Any, equal: Any = (), run: bool = True, **options: Any) -> Any:
    """The claims about ``fun`` over ``i``; they have been held against a run."""
    pmapped = shardlift.pmap(fun, "i", **options)
    found = shardlift.replication(pmapped, *args, equal=equal)
    if run:
        hold_against(found, pmapped(*args))
    return found.proven


def reason(fun: Any, *args: Any, equal: Any = (), **options: Any) -> NotProven:
    """Why the only output of ``fun`` is not proven."""
    pmapped = shardlift.pmap(fun, "i", **options)
    (said,) = shardlift.replication(pmapped, *args, equal=equal).outputs.values()
    assert isinstance(said, NotProven), said
    return said
