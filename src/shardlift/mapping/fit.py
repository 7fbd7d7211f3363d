"""Inputs that do not lie where a site wants them: recognised, refused or moved."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding

from shardlift.arrays.moving import move, nbytes, rewrap
from shardlift.mapping.axes import Axis
from shardlift.mapping.options import Reshard
from shardlift.mapping.plan import Plan

Names = Callable[[], Iterable[str]]


class ReshardWarning(UserWarning):
    """A pmap with ``reshard="warn"`` had to move its inputs."""


def fit_leaves(
    plan: Plan,
    site: str,
    leaves: Sequence[Any],
    axes: Sequence[Axis],
    donated: Sequence[bool],
    policy: Reshard,
    names: Names,
) -> list[Any] | None:
    """The leaves as the plan wants them, or None if they already are.

    Rewrapping the same bytes and slicing what each device already holds are free and always
    done. Anything that would carry bytes from one device to another is up to ``policy``.
    """
    fitted = list(leaves)
    to_move: list[int] = []
    # In a job of many processes jit takes no NumPy argument that has a sharding (0.10 to 0.12).
    numpy_is_refused = plan.bridge is None and jax.process_count() > 1
    for k, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        wanted = plan.sharding(axis)
        if axis is not None and numpy_is_refused and not isinstance(leaf, jax.Array):
            fitted[k] = jax.device_put(leaf, wanted)
        elif not _is_placed(leaf) or _lies_well(leaf, wanted, plan):
            continue
        elif leaf.sharding.is_equivalent_to(wanted, leaf.ndim):
            fitted[k] = rewrap(leaf, wanted)
        elif _is_free(leaf, wanted) or (plan.inner and _on_same_devices(leaf, wanted)):
            fitted[k] = jax.device_put(leaf, wanted)
        else:
            to_move.append(k)
    if to_move:
        _ask(plan, site, leaves, axes, to_move, policy, names)
    for k in to_move:
        fitted[k] = move(leaves[k], plan.sharding(axes[k]), free=donated[k])
    changed = any(new is not old for new, old in zip(fitted, leaves, strict=True))
    return fitted if changed else None


def _is_placed(leaf: Any) -> bool:
    """Is this an array that somebody put somewhere on purpose?"""
    return (
        isinstance(leaf, jax.Array)
        and not isinstance(leaf, jax.core.Tracer)
        and leaf.committed
        and not leaf.is_deleted()
    )


def _lies_well(leaf: jax.Array, wanted: NamedSharding, plan: Plan) -> bool:
    mesh = leaf.sharding.mesh if isinstance(leaf.sharding, NamedSharding) else None
    if mesh is not None and AxisType.Explicit in mesh.axis_types:
        return False  # its type names another mesh, which shard_map refuses
    if plan.inner:  # how it lies over the inner axes is the compiler's choice
        return mesh == plan.home
    return leaf.sharding.is_equivalent_to(wanted, leaf.ndim)


def _is_free(leaf: jax.Array, wanted: NamedSharding) -> bool:
    """Does every device that is wanted hold the whole array, or would jit itself copy it there?

    jit copies an argument that is whole where it lies to every device that wants it whole
    (0.10 to 0.12), committed or not, so an unmapped argument never needs leave.
    """
    spreads = wanted.is_fully_replicated or wanted.device_set <= leaf.sharding.device_set
    return leaf.is_fully_replicated and spreads


def _on_same_devices(leaf: jax.Array, wanted: NamedSharding) -> bool:
    return leaf.sharding.device_set == wanted.device_set


def _ask(
    plan: Plan,
    site: str,
    leaves: Sequence[Any],
    axes: Sequence[Axis],
    to_move: Sequence[int],
    policy: Reshard,
    names: Names,
) -> None:
    """Refuse, warn or keep silent about what is going to be moved."""
    if policy == "silent":
        return
    named = list(names())
    first = to_move[0]
    leaf, wanted = leaves[first], plan.sharding(axes[first])
    total = sum(nbytes(leaves[k]) for k in to_move)
    others = f" (and {len(to_move) - 1} more)" if len(to_move) > 1 else ""
    if policy == "warn":
        warnings.warn(
            f"pmap of {site} moves {total} bytes of its inputs between devices on this call: "
            f"{named[first]}{others} lies as {leaf.sharding}, wanted is {wanted}. Place it once, "
            "with jax.device_put, before the loop. Said once for this pmap.",
            ReshardWarning,
            stacklevel=2,
        )
        return
    raise ValueError(
        f"pmap of {site} received incompatible devices for argument {named[first]}{others}, "
        f"{leaf.dtype}{list(leaf.shape)}:\n"
        f"  it is committed to {leaf.sharding}\n"
        f"  this pmap wants it as {wanted}\n"
        f"Ways out: place it first, with jax.device_put({named[first]}, <the sharding wanted>); "
        'give pmap reshard="warn" or reshard="silent" to have it moved at each such call, as '
        "jax.pmap did before 0.8; or give pmap the devices= and in_axes= that match the array."
    )
