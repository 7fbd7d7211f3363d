"""The first call of a program: arguments that come back as outputs get the outputs' sharding.

jit compiles one program for each layout of its arguments. A training state comes to its first
step from NumPy, from one device or from a mesh with an axis of another name, and to the second
step from the first one: two programs, and the first is used once (jax 0.10 to 0.12). Laid out
before the first call, the state needs only one program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from shardlift.arrays.resharding import rewrap
from shardlift.mapping.argument_placement import has_another_name
from shardlift.mapping.axes import Call
from shardlift.mapping.plan import Plan


def lay_out(plan: Plan, call: Call, donated: Sequence[bool]) -> list[Any] | None:
    """The leaves of a first call, laid out as outputs where they come back; None: no change.

    An argument of several arrays, or one donated array, comes back if an output of the program has
    the same structure, shapes and dtypes. If nothing has to be laid out, the trace that this takes
    is not wasted: the call itself uses it.
    """
    wanted = [plan.sharding(axis) for axis in call.axes]
    pairs = zip(call.leaves, wanted, strict=True)
    ready = [not _needs_layout(leaf, sharding) for leaf, sharding in pairs]
    if all(ready) or not (len(ready) > 1 or any(donated)):
        return None
    out = plan.program.eval_shape(*call.args, **call.kwargs)
    leaves = list(call.leaves)
    for k in _returned_leaves(call, donated, out):
        if not ready[k]:
            put = rewrap if getattr(leaves[k], "committed", False) else jax.device_put
            leaves[k] = put(leaves[k], wanted[k])
    return leaves


def _returned_leaves(call: Call, donated: Sequence[bool], out: Any) -> Iterator[int]:
    """The numbers of the leaves of arguments that have the form of an output."""
    unmatched = Counter(_form(part) for part in _parts(out))
    args, kwargs = jax.tree.unflatten(call.tree, range(len(call.leaves)))
    for argument in (*args, *kwargs.values()):
        numbers = jax.tree.leaves(argument)
        form = _form(jax.tree.map(call.leaves.__getitem__, argument))
        if unmatched[form] and (len(numbers) > 1 or any(donated[k] for k in numbers)):
            unmatched[form] -= 1
            yield from numbers


def _parts(tree: Any) -> Iterator[Any]:
    """The outputs: all of them, and those in tuples and lists."""
    yield tree
    for child in tree if isinstance(tree, (tuple, list)) else ():
        yield from _parts(child)


def _form(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    types: list[Any] = []
    for leaf in leaves:
        dtype = getattr(leaf, "dtype", type(leaf))
        if isinstance(leaf, np.ndarray):  # as jit takes it: 32 bits, unless 64 are enabled
            dtype = jax.dtypes.canonicalize_dtype(dtype)
        types.append((np.shape(leaf), dtype))
    return structure, tuple(types)


def _needs_layout(leaf: Any, wanted: NamedSharding) -> bool:
    """Is it not placed yet, or under another sharding than an output, though equivalent?"""
    if isinstance(leaf, np.ndarray):
        return True
    if not isinstance(leaf, jax.Array) or leaf.is_deleted():
        return False
    return not leaf.committed or has_another_name(leaf, wanted)
