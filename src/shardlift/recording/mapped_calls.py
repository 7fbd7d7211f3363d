"""One call of a mapped function: its arguments and outputs taken apart, and a close look at them.

Where calls are on tape, each is taken apart. For facts it is done on the first calls of a site,
then ever more rarely, and whenever a program was compiled.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from shardlift import _compat
from shardlift.capture.schema import (
    HOST,
    IN_PLACE,
    LeafFacts,
    Move,
    MovedBy,
    Placement,
    Proof,
)
from shardlift.mapping.axes import Axis, argument_names, prefix_leaves, shape_of, spec_of
from shardlift.mapping.call import with_static
from shardlift.mapping.meshes import in_context_mesh
from shardlift.mapping.plan import Plan, permit_trace
from shardlift.mapping.processes.bridge import Bridge
from shardlift.mapping.site import MappedFunction
from shardlift.recording.compilations import Signature, signature
from shardlift.recording.placements import placement_by, placement_of, spec_text
from shardlift.recording.process import MOST_DEVICES
from shardlift.recording.proofs import proofs
from shardlift.recording.row_equality import Comparison, compare
from shardlift.recording.site_records import clip

PATIENCE = 0.2  # seconds that comparing the leaves of one call may take
LARGEST_PROBE = 256 * 2**20  # bytes of arguments that are placed once more to time it


class ArgumentLeaf(NamedTuple):
    """A leaf of the arguments, and where the site wants it."""

    path: str
    leaf: Any
    axis: Axis
    spec: PartitionSpec
    target: Sharding | None  # None: an array may lie anywhere
    donated: bool


class HeldCall(NamedTuple):
    """The arguments of a call, kept until after it: the call may free those that it is given."""

    leaves: list[Any]  # one row of an argument that is equal on all devices, else all rows
    joined: frozenset[int | None]  # positions of the arguments whose rows differ


Rows = list[tuple[str, Any, Axis]]  # path, leaf and device axis


class MappedCall:
    """One call of a mapped function, taken apart before it runs.

    Subclasses say how the arguments are flattened. Those whose calls are inspected also say where
    arguments belong, and how their program is asked.
    """

    rows: Rows  # of the arguments that are not static
    size: int  # devices; 0: not known
    name: str  # of its program
    mesh: Mesh
    axis_name: str  # of the mapped axis, as the user gave it
    label: str  # of the mapped axis in the mesh
    copies: int  # devices that hold a copy of an argument that is not split
    comparing = False  # whether the rows of its leaves are compared
    seconds = 0.0  # that the inspection took before the call
    held: HeldCall | None = None  # the arguments, for a trial after the call

    def __init__(self) -> None:
        self.compared: dict[str, Comparison] = {}

    @property
    def leaves(self) -> list[Any]:
        """The arguments that are not static, flat."""
        return [leaf for _, leaf, _ in self.rows]

    def rebuild(self, leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same arguments with other leaves."""
        raise NotImplementedError

    def structure(self) -> tuple[Any, dict[Any, Any]]:
        """The tree of the arguments that are not static, and those that are."""
        raise NotImplementedError

    def devices(self) -> Iterable[jax.Device]:
        """The devices of all processes; arrays may only name the devices of this one."""
        return ()

    def rows_of(self, out: Any) -> Rows:
        """Path, leaf and axis of every output."""
        raise NotImplementedError

    def placed_rows_of(self, out: Any) -> Rows:
        """The same, with the axis that is split over the devices."""
        return self.rows_of(out)

    def about(self) -> dict[str, Any]:
        """Axis, mesh and devices."""
        devices = [f"{device.platform}:{device.id}" for device in self.mesh.devices.flat]
        return {
            "axis_name": clip(self.axis_name),
            "axis_size": int(self.mesh.shape[self.label]),
            "mesh": {clip(str(axis)): int(size) for axis, size in self.mesh.shape.items()},
            "devices": tuple(devices[:MOST_DEVICES]),
        }

    def compare_inputs(self) -> None:
        """Compare the rows of each argument; before the call, which may free them."""
        self.compared = compare_leaves(row for row in self.rows if row[2] is not None)

    # ---- after the call

    @cached_property
    def given(self) -> list[ArgumentLeaf]:
        """Every leaf of the arguments."""
        raise NotImplementedError

    def spec_of_output(self, leaf: Any, axis: Axis) -> PartitionSpec:
        """How an output is split."""
        raise NotImplementedError

    def signature(self) -> Signature:
        """What decides which program the call needs."""
        leaves = {path: leaf for path, leaf, _ in self.rows}
        return signature(leaves, *self.structure())

    def traced(self, fitted: list[Any] | None) -> Any:
        """The program that ran, None where it cannot be asked without tracing it anew.

        ``fitted`` are the leaves that it ran with, if they are not those that were given.
        """
        raise NotImplementedError

    def proofs(self, known: dict[str, LeafFacts], traced: Any) -> tuple[Proof, ...]:  # noqa: ARG002
        """Which outputs are the same everywhere, given what is ``known`` of the arguments."""
        return ()

    def arguments(self) -> list[LeafFacts]:
        """Every argument as it was given."""
        return [
            make_leaf(
                one.path, one.leaf, one.axis, one.spec, self.copies, placement,
                self.compared.get(one.path), one.donated,
            )
            for one, placement in zip(self.given, self.placements, strict=True)
        ]  # fmt: skip

    def outputs(self, out: Any, comparing: bool) -> list[LeafFacts]:
        """Every output; ``comparing`` waits for them."""
        rows = self.placed_rows_of(out)
        compared = compare_leaves(rows) if comparing else {}
        return [
            make_leaf(
                path, leaf, axis, self.spec_of_output(leaf, axis), self.copies, IN_PLACE,
                compared.get(path), False,
            )
            for path, leaf, axis in rows
        ]  # fmt: skip

    @cached_property
    def placements(self) -> list[Placement]:
        """Where each argument lay."""
        known: dict[Any, bool] = {}
        return [
            IN_PLACE if _is_in_place(one, known) else placement_of(one.leaf) for one in self.given
        ]

    def moves(self, already: Iterable[str]) -> list[Move]:
        """The arguments that the program itself had to bring to its devices."""
        moved = set(already)
        return [
            Move(
                one.path, placement, placement_by(self._target(one)),
                nbytes(one.leaf) * (self.copies if one.axis is None else 1), 1, MovedBy.PROGRAM,
            )
            for one, placement in zip(self.given, self.placements, strict=True)
            if placement != IN_PLACE and one.path not in moved
        ]  # fmt: skip

    def _target(self, one: ArgumentLeaf) -> Sharding:
        return one.target or NamedSharding(self.mesh, PartitionSpec())

    def probe(self, paths: set[str]) -> float | None:
        """How long it takes to place these arguments; they are placed once more, and waited for.

        The program does it as part of the call, where nobody can time it.
        """
        chosen = [one for one in self.given if one.path in paths]
        return placing_time([(one.leaf, self._target(one)) for one in chosen])

    def kept(self) -> list[str]:
        """The donated arguments whose memory was not reused."""
        return [
            one.path
            for one in self.given
            if one.donated and isinstance(one.leaf, jax.Array) and not one.leaf.is_deleted()
        ]


def _is_in_place(one: ArgumentLeaf, known: dict[Any, bool]) -> bool:
    if not isinstance(one.leaf, jax.Array) or one.target is None:
        return isinstance(one.leaf, jax.Array)
    sharding, ndim = one.leaf.sharding, one.leaf.ndim
    key = (id(sharding), id(one.target), ndim)  # most leaves share a sharding
    if key not in known:
        known[key] = sharding.is_equivalent_to(one.target, ndim)
    return known[key]


class PmapCall(MappedCall):
    """One call of a pmap, which knows which axis of everything is the devices'."""

    def __init__(self, site: MappedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.site, self.name = site, site.name
        self.call = call = site.take_apart(args, kwargs)
        self.rows = list(zip(site.names(call), call.leaves, call.axes, strict=True))
        self.size = call.size
        name = site.options.axis_name
        self.axis_name = "" if name is None else str(name)

    def rebuild(self, leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same arguments with other leaves."""
        dynamic, named = jax.tree.unflatten(self.call.tree, leaves)
        return tuple(with_static(self.site.options, self.call.args, dynamic)), named

    def structure(self) -> tuple[Any, dict[Any, Any]]:
        """The tree of the arguments that are not static, and those that are."""
        return self.call.tree, {k: self.call.args[k] for k in self.site.options.static}

    def devices(self) -> Iterable[jax.Device]:
        """The devices of all processes."""
        return tuple(self.mesh.devices.flat)

    def rows_of(self, out: Any) -> Rows:
        """Path, leaf and axis of every output."""
        return pmap_outputs(self.site, out)

    @cached_property
    def plan(self) -> Plan:
        """The plan that the call ran by."""
        return self.site.with_plan(self.call, lambda plan: plan)

    @property
    def mesh(self) -> Mesh:  # type: ignore[override]
        """The mesh of the plan."""
        return self.plan.mesh

    @property
    def label(self) -> str:  # type: ignore[override]
        """The mapped axis in the mesh."""
        return self.plan.label

    @property
    def copies(self) -> int:  # type: ignore[override]
        """Devices of the pmap."""
        return self.plan.home.size

    @cached_property
    def given(self) -> list[ArgumentLeaf]:
        """Every leaf of the arguments."""
        rows = zip(self.rows, self.site.donated(self.call), strict=True)
        return [
            ArgumentLeaf(
                path, leaf, axis, spec_of(axis, self.plan.label), self.plan.sharding(axis), donated
            )
            for (path, leaf, axis), donated in rows
        ]

    def spec_of_output(self, leaf: Any, axis: Axis) -> PartitionSpec:  # noqa: ARG002
        """How an output is split."""
        return spec_of(axis, self.plan.label)

    def probe(self, paths: set[str]) -> float | None:
        """How long it takes to place these arguments; not known in a job of many processes."""
        return None if self.plan.bridge is not None else super().probe(paths)

    def traced(self, fitted: list[Any] | None) -> Any:
        """The program that ran, None where it cannot be asked without tracing it anew.

        ``fitted`` are the leaves that it ran with, if they are not those that were given.
        """
        if in_context_mesh() or _compat.jit_disabled():
            return None
        plan, args, kwargs = self.plan, self.call.args, self.call.kwargs
        if fitted is not None:
            args, kwargs = self.rebuild(fitted)
        if plan.bridge is not None:
            args, kwargs = self.rebuild(self._global_types(plan.bridge))
        # Arguments of these types were traced a moment ago: JAX has the result.
        with permit_trace():
            return plan.program.trace(*args, **kwargs)

    def owners(self) -> list[int | None]:
        """The position of the argument that each leaf belongs to.

        Those that are given by name are counted after the others, by the alphabet, as in JAX.
        """
        owners: list[int | None] = []
        named = [self.call.kwargs[name] for name in sorted(self.call.kwargs)]
        for k, arg in enumerate([*self.call.args, *named]):
            if k not in self.site.options.static:
                owners += [k] * len(jax.tree.leaves(arg))
        return owners + [None] * (len(self.call.leaves) - len(owners))

    def proofs(self, known: dict[str, LeafFacts], traced: Any) -> tuple[Proof, ...]:
        """Which outputs are the same everywhere, given what is ``known`` of the arguments."""
        owners = self.owners()
        # Leaves beyond the bound of a record were not compared for long: it goes without them.
        differ = {
            owner
            for owner, (path, _, axis) in zip(owners, self.rows, strict=True)
            if axis is not None and (leaf := known.get(clip(path))) and leaf.equal is not True
        }
        seen = {owner for owner in owners if owner is not None} - differ
        paths = [path for path, _, _ in self.rows]
        return proofs(traced.jaxpr, traced.out_info, paths, owners, seen)

    def _global_types(self, bridge: Bridge) -> list[Any]:
        """What the program was traced with: the arrays themselves may have been donated to it."""
        types = []
        for leaf, axis in zip(self.call.leaves, self.call.axes, strict=True):
            here = not isinstance(leaf, jax.Array) or leaf.is_fully_addressable
            shape = bridge.global_shape(shape_of(leaf), axis) if here else leaf.shape
            lies = bridge.sharding(axis) if here else leaf.sharding
            kind = jax.typeof(leaf)
            weak = kind.weak_type
            types.append(jax.ShapeDtypeStruct(shape, kind.dtype, sharding=lies, weak_type=weak))
        return types


def pmap_outputs(site: MappedFunction, out: Any) -> Rows:
    """Path, leaf and axis of every output of a pmap."""
    axes = prefix_leaves(site.options.out_axes, out, "out_axes")
    rows = zip(output_leaves(out), axes, strict=True)
    return [(path, leaf, axis if axis is None else max(axis, 0)) for (path, leaf), axis in rows]


class JitFunction:
    """A jitted or shard_mapped function: what its options say about its arguments."""

    def __init__(self, fun: Any, options: dict[str, Any]) -> None:
        self.fun = fun
        static, self.static_names = _static(fun, options)
        self.static: Collection[int] = static


class JitCall(MappedCall):
    """One call of jit or shard_map: only the arrays themselves know their layout."""

    def __init__(
        self, function: JitFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        super().__init__()
        self.args, self.kwargs, self.size = args, kwargs, 0
        static = {k % len(args) for k in function.static if -len(args) <= k < len(args)}
        self._numbers = [k for k in range(len(args)) if k not in static]
        self._fixed = {name: kwargs[name] for name in kwargs if name in function.static_names}
        dynamic = tuple(args[k] for k in self._numbers)
        named = {name: value for name, value in kwargs.items() if name not in self._fixed}
        leaves, self._tree = jax.tree.flatten((dynamic, named))
        paths = argument_names(function.fun, dynamic, named, self._numbers)
        self.rows = [(path, leaf, None) for path, leaf in zip(paths, leaves, strict=True)]

    def rebuild(self, leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same arguments with other leaves."""
        given, rest = jax.tree.unflatten(self._tree, leaves)
        new = dict(zip(self._numbers, given, strict=True))
        args = tuple(new.get(k, arg) for k, arg in enumerate(self.args))
        return args, {**rest, **self._fixed}

    def structure(self) -> tuple[Any, dict[Any, Any]]:
        """The tree of the arguments that are not static, and those that are."""
        static = {k: arg for k, arg in enumerate(self.args) if k not in self._numbers}
        return self._tree, {**static, **self._fixed}

    def rows_of(self, out: Any) -> Rows:
        """Path, leaf and axis of every output."""
        return [(path, leaf, None) for path, leaf in output_leaves(out)]


def output_leaves(out: Any) -> list[tuple[str, Any]]:
    """Path and leaf of every output."""
    flat = jax.tree_util.tree_flatten_with_path(out)[0]
    return [("output" + jax.tree_util.keystr(path), leaf) for path, leaf in flat]


def _static(fun: Any, options: dict[str, Any]) -> tuple[set[int], set[str]]:
    numbers, names = options.get("static_argnums"), options.get("static_argnames")
    positions = {numbers} if isinstance(numbers, int) else set(numbers or ())
    named = {names} if isinstance(names, str) else set(names or ())
    try:
        parameters = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        return positions, named
    positions |= {k for k, name in enumerate(parameters) if name in named}
    named |= {parameters[k] for k in positions if -len(parameters) <= k < len(parameters)}
    return positions, named


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


def nbytes(leaf: Any) -> int:
    """The bytes of a leaf, of all its rows."""
    size = 1
    for n in shape_of(leaf):
        size *= n
    dtype = getattr(leaf, "dtype", None)
    return size * int(getattr(dtype, "itemsize", 8))


def compare_leaves(rows: Iterable[tuple[str, Any, Axis]]) -> dict[str, Comparison]:
    """Compare the rows of leaves, the largest first, until it takes too long."""
    deadline = time.perf_counter() + PATIENCE
    comparisons = {}
    for path, leaf, axis in sorted(rows, key=lambda row: -nbytes(row[1])):
        if time.perf_counter() > deadline:
            break
        comparison = compare(leaf, axis)
        if comparison is not None:
            comparisons[path] = comparison
    return comparisons


def make_leaf(
    path: str,
    leaf: Any,
    axis: Axis,
    spec: PartitionSpec,
    copies: int,
    placement: Placement,
    compared: Comparison | None,
    donated: bool,
) -> LeafFacts:
    """What is known of a leaf, for the capture."""
    return LeafFacts(
        path=path,
        dtype=str(getattr(leaf, "dtype", type(leaf).__name__)),
        shape=shape_of(leaf),
        nbytes=nbytes(leaf) * (copies if axis is None and placement != HOST else 1),
        axis=axis,
        spec=spec_text(spec),
        placement=placement,
        donated=donated,
        compared=int(compared is not None),
        equal=None if compared is None else compared.equal,
        digest=None if compared is None else compared.digest,
    )
