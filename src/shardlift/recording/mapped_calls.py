"""One call of a mapped function: its arguments and outputs taken apart, and a close look at them.

Where calls are on tape, each is taken apart. For facts it is done on the first calls of a pmap,
then ever more rarely, and whenever a program was compiled.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import jax

from shardlift import _compat
from shardlift.capture.schema import LeafFacts, Move, MovedBy, Proof
from shardlift.mapping.axes import Axis, argument_names, prefix_leaves, shape_of
from shardlift.mapping.meshes import in_context_mesh
from shardlift.mapping.plan import Plan, permit_trace
from shardlift.mapping.processes.bridge import Bridge
from shardlift.mapping.site import MappedFunction
from shardlift.recording.compilations import Signature, placement_by, placement_of, signature
from shardlift.recording.programs import proofs
from shardlift.recording.row_equality import Comparison, compare
from shardlift.recording.site_records import clip

PATIENCE = 0.2  # seconds that comparing the leaves of one call may take
LARGEST_PROBE = 256 * 2**20  # bytes of arguments that are placed once more to time it


class HeldCall(NamedTuple):
    """The arguments of a call, kept until after it: the call may free those that it is given."""

    leaves: list[Any]  # one row of an argument that is equal on all devices, else all rows
    joined: list[bool]  # of each leaf: whether it is all rows
    positions: tuple[int, ...]  # of the arguments whose rows differ


Rows = list[tuple[str, Any, Axis]]  # path, leaf and device axis


class PmapCall:
    """One call of a pmap, which knows where its arguments belong, and can be inspected."""

    comparing = False  # whether the rows of its leaves are compared
    seconds = 0.0  # that the inspection took before the call
    held: HeldCall | None = None  # the arguments, for a trial after the call

    def __init__(self, site: MappedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.site = site
        self.call = call = site.take_apart(args, kwargs)
        self.leaves = call.leaves  # of the arguments that are not static
        self.rows: Rows = list(zip(site.names(call), call.leaves, call.axes, strict=True))
        self.size = call.size  # devices
        self.compared: dict[str, Comparison] = {}

    def rebuild(self, leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same arguments with other leaves."""
        dynamic, named = jax.tree.unflatten(self.call.tree, leaves)
        return self.site.options.with_static(self.call.args, dynamic), named

    def structure(self) -> tuple[Any, dict[Any, Any]]:
        """The tree of the arguments that are not static, and those that are."""
        return self.call.tree, {k: self.call.args[k] for k in self.site.options.static}

    def rows_of(self, out: Any) -> Rows:
        """Path, leaf and axis of every output."""
        axes = prefix_leaves(self.site.options.out_axes, out, "out_axes")
        rows = zip(output_leaves(out), axes, strict=True)
        return [(path, leaf, axis if axis is None else max(axis, 0)) for (path, leaf), axis in rows]

    def compare_inputs(self) -> None:
        """Compare the rows of each argument; before the call, which may free them."""
        self.comparing = True
        self.compared = compare_leaves(row for row in self.rows if row[2] is not None)
        jax.block_until_ready(self.leaves)  # so that the time of this call alone is measured

    # ---- after the call

    @cached_property
    def plan(self) -> Plan:
        """The plan that the call ran by."""
        return self.site.with_plan(self.call, lambda plan: plan)

    def about(self) -> dict[str, Any]:
        """The mapped axis, as the user gave it."""
        name, size = self.site.options.axis_name, int(self.plan.mesh.shape[self.plan.label])
        return {"axis_name": "" if name is None else clip(str(name)), "axis_size": size}

    def signature(self) -> Signature:
        """What decides which program the call needs."""
        return signature({path: leaf for path, leaf, _ in self.rows}, *self.structure())

    def arguments(self) -> list[LeafFacts]:
        """Every argument as it was given; of a donated one, whether its memory was not reused."""
        donated = self.site.donated(self.call)
        return [
            self._leaf(row, self.compared.get(row[0]), gone)
            for row, gone in zip(self.rows, donated, strict=True)
        ]

    def outputs(self, out: Any) -> list[LeafFacts]:
        """Every output; a comparison waits for them."""
        rows = self.rows_of(out)
        compared = compare_leaves(rows) if self.comparing else {}
        return [self._leaf(row, compared.get(row[0])) for row in rows]

    def _leaf(
        self, row: tuple[str, Any, Axis], compared: Comparison | None, donated: bool = False
    ) -> LeafFacts:
        path, leaf, axis = row
        is_array = isinstance(leaf, jax.Array)
        copies = self.plan.home.size if is_array and axis is None else 1
        return LeafFacts(
            path=path,
            nbytes=nbytes(leaf) * copies,
            axis=axis,
            donated=donated,
            kept=int(donated and is_array and not leaf.is_deleted()),
            compared=int(compared is not None),
            equal=None if compared is None else compared.equal,
            digest=None if compared is None else compared.digest,
        )

    def moves(self, already: set[str]) -> list[Move]:
        """The arguments that the program itself had to bring to its devices."""
        rows = [row for row in self.rows if row[0] not in already]
        moves = (move_of(self.plan, *row, MovedBy.PROGRAM) for row in rows)
        return [move for move in moves if move is not None]

    def probe(self, paths: set[str]) -> float | None:
        """How long it takes to place these arguments; they are placed once more, and waited for.

        The program does it as part of the call, where nobody can time it. None: they are gone, or
        too large to do it twice.
        """
        chosen = [
            (leaf, self.plan.sharding(axis))
            for path, leaf, axis in self.rows
            if path in paths and not (isinstance(leaf, jax.Array) and leaf.is_deleted())
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

    def owners(self) -> list[int]:
        """The position of the argument that each leaf belongs to.

        Those that are given by name are counted after the others, by the alphabet, as in JAX.
        """
        named = [self.call.kwargs[name] for name in sorted(self.call.kwargs)]
        return [
            k
            for k, arg in enumerate([*self.call.args, *named])
            if k not in self.site.options.static
            for _ in jax.tree.leaves(arg)
        ]

    def proofs(self, known: dict[str, LeafFacts], traced: Any) -> tuple[Proof, ...]:
        """Which outputs are the same everywhere, given what is ``known`` of the arguments."""
        owners = self.owners()
        # Leaves beyond the bound of a record were not compared for long: it goes without them.
        differ = {
            owner
            for owner, (path, _, axis) in zip(owners, self.rows, strict=True)
            if axis is not None and (leaf := known.get(clip(path))) and leaf.equal is not True
        }
        paths = [path for path, _, _ in self.rows]
        return proofs(traced.jaxpr, traced.out_info, paths, owners, {*owners} - differ)

    def _global_types(self, bridge: Bridge) -> list[Any]:
        """What the program was traced with: the arrays themselves may have been donated to it."""
        types = []
        for leaf, axis in zip(self.call.leaves, self.call.axes, strict=True):
            kind = jax.typeof(leaf)
            shape: Any = bridge.global_shape(kind.shape, axis)
            sharding: Any = bridge.sharding(axis)
            if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
                shape, sharding = leaf.shape, leaf.sharding
            weak = kind.weak_type
            types.append(jax.ShapeDtypeStruct(shape, kind.dtype, sharding=sharding, weak_type=weak))
        return types


class JitCall:
    """One call of jit or shard_map: only the arrays themselves know their layout.

    ``static`` has the positions and names of static arguments.
    """

    def __init__(
        self,
        fun: Any,
        static: tuple[set[int], set[str]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.args, self.size = args, 0  # how many devices is not known
        fixed = {k % len(args) for k in static[0] if -len(args) <= k < len(args)}
        self._numbers = [k for k in range(len(args)) if k not in fixed]
        self._fixed = {name: kwargs[name] for name in kwargs if name in static[1]}
        dynamic = tuple(args[k] for k in self._numbers)
        named = {name: value for name, value in kwargs.items() if name not in self._fixed}
        self.leaves, self._tree = jax.tree.flatten((dynamic, named))
        paths = argument_names(fun, dynamic, named, self._numbers)
        self.rows: Rows = [(path, x, None) for path, x in zip(paths, self.leaves, strict=True)]

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


MappedCall = PmapCall | JitCall


def output_leaves(out: Any) -> list[tuple[str, Any]]:
    """Path and leaf of every output."""
    flat = jax.tree_util.tree_flatten_with_path(out)[0]
    return [("output" + jax.tree_util.keystr(path), leaf) for path, leaf in flat]


def static_arguments(fun: Any, options: dict[str, Any]) -> tuple[set[int], set[str]]:
    """The positions and the names of the static arguments of jit."""
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


def move_of(plan: Plan, path: str, leaf: Any, axis: Axis, by: MovedBy) -> Move | None:
    """How an argument gets to where a plan needs it; None if it is there."""
    target = plan.sharding(axis)
    if isinstance(leaf, jax.Array) and leaf.sharding.is_equivalent_to(target, leaf.ndim):
        return None
    size = nbytes(leaf) * (plan.home.size if axis is None else 1)
    return Move(path, placement_of(leaf), placement_by(target), size, 1, by)


def nbytes(leaf: Any) -> int:
    """The bytes of a leaf, of all its rows."""
    dtype = getattr(leaf, "dtype", None)
    return math.prod(shape_of(leaf)) * int(getattr(dtype, "itemsize", 8))


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
