"""A close look at one call: how its arguments lie, which leaves are the same everywhere.

Made on the first calls of a site, then ever more rarely, and whenever a program was compiled.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import jax
from jax.sharding import Sharding

from shardlift import _compat
from shardlift.capture.schema import HOST, IN_PLACE, Leaf, Move, MovedBy, Placement, Proof
from shardlift.mapping.axes import Axis, prefix_leaves, shape_of, spec_of
from shardlift.mapping.call import with_static
from shardlift.mapping.meshes import in_context_mesh
from shardlift.mapping.plan import Plan
from shardlift.mapping.processes.bridge import Bridge
from shardlift.mapping.site import Site
from shardlift.recording.compilations import Signature, signature
from shardlift.recording.placements import placement_by, placement_of, spec_text
from shardlift.recording.process import MOST_DEVICES
from shardlift.recording.proofs import proofs
from shardlift.recording.row_equality import Comparison, compare
from shardlift.recording.site_records import clip

PATIENCE = 0.2  # seconds that comparing the leaves of one call may take
LARGEST_PROBE = 256 * 2**20  # bytes of arguments that are placed once more to time it


class Look:
    """One call of a site, looked at before and after it runs."""

    def __init__(self, site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.site = site
        self.call = site.take_apart(args, kwargs)
        self.paths = list(site.names(self.call))
        self.seen: dict[str, Comparison] = {}
        self._plan: Plan | None = None

    @property
    def name(self) -> str:
        """What its program is called."""
        return self.site.name

    def about(self) -> dict[str, Any]:
        """Axis, mesh and devices of the plan."""
        plan, options = self.plan, self.site.options
        devices = [f"{device.platform}:{device.id}" for device in plan.mesh.devices.flat]
        name = "" if options.axis_name is None else clip(str(options.axis_name))
        return {
            "axis_name": name,
            "axis_size": plan.mesh.shape[plan.label],
            "mesh": {clip(str(axis)): size for axis, size in plan.mesh.shape.items()},
            "devices": tuple(devices[:MOST_DEVICES]),
        }

    # ---- before

    def compare_inputs(self) -> None:
        """Compare the rows of each argument; before the call, which may free them."""
        leaves = zip(self.paths, self.call.leaves, self.call.axes, strict=True)
        self.seen |= compared(leaf for leaf in leaves if leaf[2] is not None)

    # ---- after

    @property
    def plan(self) -> Plan:
        """The plan that the call ran by."""
        if self._plan is None:
            self._plan = self.site.with_plan(self.call, lambda plan: plan)
        return self._plan

    def arguments(self) -> list[Leaf]:
        """Every argument as it was given."""
        donated = self.site.donated(self.call)
        places = self.places()
        return [
            self._leaf(path, leaf, axis, place, self.seen.get(path), free)
            for path, leaf, axis, place, free in zip(
                self.paths, self.call.leaves, self.call.axes, places, donated, strict=True
            )
        ]

    def places(self) -> list[Placement]:
        """Where each argument lay: in place, or where else."""
        known: dict[Any, bool] = {}
        return [
            IN_PLACE if self._is_in_place(leaf, axis, known) else placement_of(leaf)
            for leaf, axis in zip(self.call.leaves, self.call.axes, strict=True)
        ]

    def _is_in_place(self, leaf: Any, axis: Axis, known: dict[Any, bool]) -> bool:
        if not isinstance(leaf, jax.Array):
            return False
        key = (id(leaf.sharding), axis, leaf.ndim)  # most leaves share a sharding
        if key not in known:
            known[key] = leaf.sharding.is_equivalent_to(self.plan.sharding(axis), leaf.ndim)
        return known[key]

    def moves(self, already: Iterable[str]) -> list[Move]:
        """The arguments that the program itself had to bring to its devices."""
        moved = set(already)
        found = []
        rows = zip(self.paths, self.call.leaves, self.call.axes, self.places(), strict=True)
        for path, leaf, axis, place in rows:
            if place != IN_PLACE and path not in moved:
                copies = self.plan.home.size if axis is None else 1
                target = placement_by(self.plan.sharding(axis))
                found.append(Move(path, place, target, copies * nbytes(leaf), 1, MovedBy.PROGRAM))
        return found

    def probe(self, paths: set[str]) -> float | None:
        """How long it takes to place these arguments; they are placed once more, and waited for.

        The program does it as part of the call, where nobody can time it.
        """
        if self.plan.bridge is not None:
            return None
        return placing_time(
            [
                (leaf, self.plan.sharding(axis))
                for path, leaf, axis in zip(
                    self.paths, self.call.leaves, self.call.axes, strict=True
                )
                if path in paths
            ]
        )

    def kept(self) -> list[str]:
        """The donated arguments whose memory was not reused."""
        return [
            path
            for path, leaf, donated in zip(
                self.paths, self.call.leaves, self.site.donated(self.call), strict=True
            )
            if donated and isinstance(leaf, jax.Array) and not leaf.is_deleted()
        ]

    def _leaf(
        self,
        path: str,
        leaf: Any,
        axis: Axis,
        placement: Placement,
        seen: Comparison | None,
        donated: bool,
    ) -> Leaf:
        spec = spec_text(spec_of(axis, self.plan.label))
        return make_leaf(path, leaf, axis, spec, self.plan.home.size, placement, seen, donated)

    def rows_of(self, out: Any) -> list[tuple[str, Any, Axis]]:
        """Path, leaf and axis of every output."""
        return outputs_of(self.site, out)

    def outputs(self, out: Any, comparing: bool) -> list[Leaf]:
        """Every output; ``comparing`` waits for them."""
        rows = self.rows_of(out)
        seen = compared(rows) if comparing else {}
        return [
            self._leaf(path, leaf, axis, IN_PLACE, seen.get(path), False)
            for path, leaf, axis in rows
        ]

    def signature(self) -> Signature:
        """What decides which program the call needs."""
        static = {k: self.call.args[k] for k in self.site.options.static}
        leaves = dict(zip(self.paths, self.call.leaves, strict=True))
        return signature(leaves, self.call.tree, static)

    def traced(self, fitted: list[Any] | None) -> Any:
        """The program that ran, None where it cannot be asked without tracing it anew.

        ``fitted`` are the leaves that it ran with, if they are not those that were given.
        """
        if in_context_mesh() or _compat.jit_disabled():
            return None
        call, plan, options = self.call, self.plan, self.site.options
        args, kwargs = call.args, call.kwargs
        if fitted is not None:
            dynamic, kwargs = jax.tree.unflatten(call.tree, fitted)
            args = tuple(with_static(options, args, dynamic))
        if plan.bridge is not None:
            dynamic, kwargs = jax.tree.unflatten(call.tree, self._global_types(plan.bridge))
            args = tuple(with_static(options, args, dynamic))
        # Arguments of these types were traced a moment ago: JAX has the result.
        return plan.program.trace(*args, **kwargs)

    def owners(self) -> list[int | None]:
        """The position of the argument that each leaf belongs to; None of one given by name."""
        found: list[int | None] = []
        for k, arg in enumerate(self.call.args):
            if k not in self.site.options.static:
                found += [k] * len(jax.tree.leaves(arg))
        return found + [None] * (len(self.call.leaves) - len(found))

    def proofs(self, known: dict[str, Leaf], traced: Any) -> tuple[Proof, ...]:
        """Which outputs are the same everywhere, given what is ``known`` of the arguments."""
        owners = self.owners()
        # Leaves beyond the bound of a record were not compared for long: it goes without them.
        rows = zip(owners, self.paths, self.call.axes, strict=True)
        differ = {
            owner
            for owner, path, axis in rows
            if axis is not None and (leaf := known.get(clip(path))) and leaf.equal is not True
        }
        seen = {owner for owner in owners if owner is not None} - differ
        return proofs(traced.jaxpr, traced.out_info, self.paths, owners, seen)

    def _global_types(self, bridge: Bridge) -> list[Any]:
        """What the program was traced with: the arrays themselves may have been donated to it."""
        found = []
        for leaf, axis in zip(self.call.leaves, self.call.axes, strict=True):
            here = not isinstance(leaf, jax.Array) or leaf.is_fully_addressable
            shape = bridge.global_shape(shape_of(leaf), axis) if here else leaf.shape
            lies = bridge.sharding(axis) if here else leaf.sharding
            kind = jax.typeof(leaf)
            weak = kind.weak_type
            found.append(jax.ShapeDtypeStruct(shape, kind.dtype, sharding=lies, weak_type=weak))
        return found


def placing_time(wanted: Iterable[tuple[Any, Sharding]]) -> float | None:
    """Seconds that it takes to place leaves; None: they are gone, or too large to do it twice."""
    chosen = [
        (leaf, lies)
        for leaf, lies in wanted
        if not (isinstance(leaf, jax.Array) and leaf.is_deleted())
    ]
    if not chosen or sum(nbytes(leaf) for leaf, _ in chosen) > LARGEST_PROBE:
        return None
    leaves, shardings = ([*part] for part in zip(*chosen, strict=True))
    times = []
    for _ in range(2):  # the first time may compile
        start = time.perf_counter()
        jax.block_until_ready(jax.device_put(leaves, shardings))
        times.append(time.perf_counter() - start)
    return min(times)


def outputs_of(site: Site, out: Any) -> list[tuple[str, Any, Axis]]:
    """Path, leaf and axis of every output."""
    axes = prefix_leaves(site.options.out_axes, out, "out_axes")
    flat = jax.tree_util.tree_flatten_with_path(out)[0]
    return [
        ("output" + jax.tree_util.keystr(path), leaf, axis if axis is None else max(axis, 0))
        for (path, leaf), axis in zip(flat, axes, strict=True)
    ]


def nbytes(leaf: Any) -> int:
    """The bytes of a leaf, of all its rows."""
    size = 1
    for n in shape_of(leaf):
        size *= n
    dtype = getattr(leaf, "dtype", None)
    return size * int(getattr(dtype, "itemsize", 8))


def compared(rows: Iterable[tuple[str, Any, Axis]]) -> dict[str, Comparison]:
    """The largest leaves first, until it takes too long."""
    deadline = time.perf_counter() + PATIENCE
    found = {}
    for path, leaf, axis in sorted(rows, key=lambda row: -nbytes(row[1])):
        if time.perf_counter() > deadline:
            break
        seen = compare(leaf, axis)
        if seen is not None:
            found[path] = seen
    return found


def make_leaf(
    path: str,
    leaf: Any,
    axis: Axis,
    spec: str,
    copies: int,
    placement: Placement,
    seen: Comparison | None,
    donated: bool,
) -> Leaf:
    """What is known of a leaf, in the words of the schema."""
    return Leaf(
        path=path,
        dtype=str(getattr(leaf, "dtype", type(leaf).__name__)),
        shape=shape_of(leaf),
        nbytes=nbytes(leaf) * (copies if axis is None and placement != HOST else 1),
        axis=axis,
        spec=spec,
        placement=placement,
        donated=donated,
        compared=int(seen is not None),
        equal=None if seen is None else seen.equal,
        digest=None if seen is None else seen.digest,
    )
