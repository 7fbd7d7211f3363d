"""Inputs that are not placed as a program needs them: recognised, refused or moved."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import AxisType, NamedSharding

from shardlift.arrays.reads import is_concrete
from shardlift.arrays.resharding import move, rewrap
from shardlift.mapping.axes import Axis, Names
from shardlift.mapping.plan import Plan
from shardlift.mapping.pmap_options import Reshard

_CONTEXTLIB = contextlib.__file__
_INCOMPATIBLE = (
    "pmap of {0} received incompatible devices for argument {1}{2}, {3}:\n"
    "  it is committed to {4}\n"
    "  this pmap needs it as {5}\n"
    "Ways out: place it first, with jax.device_put({1}, <the sharding needed>); "
    'give pmap reshard="warn" or reshard="silent" to have it moved at each such call, as '
    "jax.pmap did before 0.8; or give pmap the devices= and in_axes= that match the array."
)


class ReshardWarning(UserWarning):
    """A pmap with ``reshard="warn"`` had to move its inputs."""


class Fit(NamedTuple):
    """The leaves of a call after placing them."""

    leaves: list[Any] | None  # None: they were placed as the plan needs them
    moved: bool  # were any moved from some devices to others?


def fit_leaves(
    plan: Plan,
    site: str,
    leaves: Sequence[Any],
    axes: Sequence[Axis],
    donated: Sequence[bool],
    policy: Reshard,
    names: Names,
) -> Fit:
    """Place the leaves as the plan needs them.

    An array on the plan's devices may have any layout: it is rewrapped or cut in place, and a
    value that every device needs whole is copied, as jit does. ``policy`` decides about arrays
    on other devices.
    """
    placed = list(leaves)
    to_move: list[int] = []
    for k, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        wanted = plan.sharding(axis)
        if not _is_placed(leaf):
            continue
        if has_another_name(leaf, wanted):
            placed[k] = rewrap(leaf, wanted)
        elif _is_usable(leaf, wanted, plan):
            continue
        # Or does each device hold all it needs already, or does each need the whole value?
        elif leaf.sharding.device_set == wanted.device_set or (
            leaf.is_fully_replicated
            and (wanted.is_fully_replicated or wanted.device_set <= leaf.sharding.device_set)
        ):
            placed[k] = jax.device_put(leaf, wanted)
        else:
            to_move.append(k)
    if to_move and policy != "silent":
        named, others = list(names())[to_move[0]], len(to_move) - 1
        leaf, wanted = leaves[to_move[0]], plan.sharding(axes[to_move[0]])
        more = f" (and {others} more)" if others else ""
        if policy != "warn":
            kind = f"{leaf.dtype}{list(leaf.shape)}"
            raise ValueError(_INCOMPATIBLE.format(site, named, more, kind, leaf.sharding, wanted))
        total = sum(leaves[k].nbytes for k in to_move)
        warnings.warn(
            f"pmap of {site} moves {total} bytes of its inputs between devices on this call: "
            f"{named}{more} has {leaf.sharding}, and the pmap needs {wanted}. Place it "
            "once, with jax.device_put, before the loop. (This warning is shown once per pmap.)",
            ReshardWarning,
            stacklevel=_caller(),
        )
    for k in to_move:
        placed[k] = move(leaves[k], plan.sharding(axes[k]), free=donated[k])
    changed = any(new is not old for new, old in zip(placed, leaves, strict=True))
    return Fit(placed if changed else None, bool(to_move))


def rename_axes(plan: Plan, leaves: Sequence[Any], axes: Sequence[Axis]) -> list[Any] | None:
    """The leaves, each as jit knows it; None: no change.

    jit compiles a program again for an array on the same devices in the same order, if their mesh
    has other names, or is none (0.10 to 0.12).
    """
    wanted = {axis: plan.sharding(axis) for axis in {*axes}}
    differs: dict[Any, bool] = {}  # of many leaves, few have a sharding of their own
    renamed = list(leaves)
    for k, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        if not _is_placed(leaf):
            continue
        key = (leaf.sharding, leaf.ndim, axis)
        if key not in differs:
            differs[key] = has_another_name(leaf, wanted[axis])
        if differs[key]:
            renamed[k] = rewrap(leaf, wanted[axis])
    return renamed if any(differs.values()) else None


def has_another_name(leaf: jax.Array, wanted: NamedSharding) -> bool:
    """Does it lie as wanted, on a mesh with other names or on none?"""
    return leaf.sharding != wanted and leaf.sharding.is_equivalent_to(wanted, leaf.ndim)


def _is_placed(leaf: Any) -> bool:
    """Is this an array that was placed on purpose?"""
    return is_concrete(leaf) and leaf.committed and not leaf.is_deleted()


def _is_usable(leaf: jax.Array, wanted: NamedSharding, plan: Plan) -> bool:
    """Can the program take it without a change?"""
    mesh = leaf.sharding.mesh if isinstance(leaf.sharding, NamedSharding) else None
    if mesh is not None and AxisType.Explicit in mesh.axis_types:
        return False  # its type names another mesh, which shard_map refuses
    if plan.inner:  # XLA stops on some pairs of meshes that have several axes each (0.10 to 0.12)
        return mesh == plan.home
    if mesh is None:
        return leaf.sharding.is_equivalent_to(wanted, leaf.ndim)
    return list(mesh.devices.flat) == list(wanted.mesh.devices.flat)  # jit wants this order


def _caller() -> int:
    """The stack level, for a warning, of the first frame outside this package."""
    package = os.path.dirname(os.path.dirname(__file__))
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith((package, _CONTEXTLIB)):
        frame, level = frame.f_back, level + 1
    return level
