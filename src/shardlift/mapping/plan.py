"""A site on one mesh: the program that a call runs.

The program is a ``jax.jit(jax.shard_map(...))`` that is called with the user's own arguments, so
that C++ does all the work of a call. It has no ``in_shardings``: the specs of the ``shard_map``
say how its inputs are laid out, the program itself rearranges an input with another layout on
the same devices, and every transformation goes through it. Anything else that is wrong with the
arguments shows while they are traced or placed, never on a call served from jit's cache.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import jax
from jax import lax
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from shardlift import _compat
from shardlift.mapping import divergence
from shardlift.mapping.axes import Axis, leaf_axes, prefix_leaves, shape_of, spec_of
from shardlift.mapping.meshes import spans_processes
from shardlift.mapping.nesting import Frame, InnerAxes, enter_frame
from shardlift.mapping.pmap_options import PmapOptions, flatten_axes

if TYPE_CHECKING:
    from shardlift.mapping.processes.bridge import Bridge

Fun = Callable[..., Any]
_may_trace: ContextVar[bool] = ContextVar("shardlift_may_trace", default=False)


class NotHotError(Exception):
    """The hot path has no program for a call."""


@contextlib.contextmanager
def permit_trace(permitted: bool = True) -> Iterator[None]:
    """Let programs be traced: their arguments are laid out, or nothing will be compiled."""
    token = _may_trace.set(permitted)
    try:
        yield
    finally:
        _may_trace.reset(token)


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """The programs of a site on one mesh."""

    mesh: Mesh
    label: str
    inner: InnerAxes
    program: Any  # jitted
    ahead: Any  # the same for lower and trace: does not check with the other processes
    bridge: Bridge | None  # converts arrays of this process for the program, where they differ
    called: Any  # the program as the caller sees it: with conversions, if there is a bridge
    rowwise: Any  # with a bridge: every argument has one row per device, for transformations

    @property
    def home(self) -> Mesh:
        """The mesh of the caller's arrays."""
        return self.mesh if self.bridge is None else self.bridge.here

    def sharding(self, axis: Axis) -> NamedSharding:
        """The sharding of the caller's argument or output mapped over ``axis``."""
        return NamedSharding(self.home, spec_of(axis, self.label))


def make_plan(
    get_fun: Callable[[], Fun],
    name: str,
    options: PmapOptions,
    mesh: Mesh,
    inner: InnerAxes,
    *,
    free: bool = False,
) -> Plan:
    """Build the programs; nothing is traced yet.

    Unless ``free``, a program in one process is traced for an argument on a mesh with other names
    only under `permit_trace`. jit traces, and compiles, a program again for an argument that is on
    the same devices under another name of their axis: on the hot path that raises, and the argument
    is renamed instead. Nothing else raises: jit calls a signature whose trace has failed once by
    way of Python ever after (0.10 to 0.12), which takes 2 to 9 times as long.
    """
    label = mesh.axis_names[0]
    frame = Frame(axes=((label, mesh.shape[label]), *inner), depth=1)
    spans = spans_processes(list(mesh.devices.flat))
    free = free or spans

    def program(*args: Any, **kwargs: Any) -> Any:
        if not (free or _may_trace.get()):
            leaves = jax.tree.leaves((options.dynamic(args), kwargs))
            names = {jax.typeof(leaf).sharding.mesh.axis_names for leaf in leaves}
            if not names <= {(), mesh.axis_names}:
                raise NotHotError
        with permit_trace(False):  # in the body, other pmaps are called
            return map_block(get_fun(), options, frame, args, kwargs, mesh)

    def rowwise(*args: Any, **kwargs: Any) -> Any:
        mapped: dict[str, Any] = {}  # axis 0 in place of None
        for what, axes in (("in_axes", options.in_axes), ("out_axes", options.out_axes)):
            leaves, tree = flatten_axes(axes)
            mapped[what] = tree.unflatten([axis or 0 for axis in leaves])
        everything = dataclasses.replace(options, **mapped)
        return map_block(get_fun(), everything, frame, args, kwargs, mesh)

    def checked(*args: Any, **kwargs: Any) -> Any:
        out = program(*args, **kwargs)  # first: if the body raises, there is nothing to agree on
        divergence.agree(describe(get_fun(), options, mesh, args, kwargs))
        return out

    for function in (program, checked, rowwise):
        function.__name__ = function.__qualname__ = name
    argnums: Any = {"static_argnums": options.static, "donate_argnums": options.donate}
    jitted = jax.jit(checked if spans else program, **argnums)
    ahead = jax.jit(program, **argnums) if spans else jitted
    if not spans or options.view == "global":
        called = _refusing_deleted(jitted, options.donate) if mesh.size > 1 else jitted
        return Plan(mesh, label, inner, jitted, ahead, None, called, None)
    # Not at the top: a job of one process needs neither.
    from shardlift.mapping.processes.bridge import Bridge
    from shardlift.mapping.processes.local_program import LocalProgram

    bridge = Bridge(mesh, options)
    called = LocalProgram(jitted, bridge, options)
    if bridge.here.size > 1:
        called = _refusing_deleted(called, options.donate)
    by_row = jax.jit(rowwise, static_argnums=options.static)
    return Plan(mesh, label, inner, jitted, ahead, bridge, called, by_row)


def _refusing_deleted(program: Callable[..., Any], donate: tuple[int, ...]) -> Callable[..., Any]:
    """The program; where JAX would crash on a deleted input, it raises instead."""
    if not (_compat.DELETED_INPUT_CRASHES and donate):
        return program

    def guarded(*args: Any, **kwargs: Any) -> Any:
        _compat.raise_if_deleted([arg for k, arg in enumerate(args) if k in donate])
        return program(*args, **kwargs)

    return guarded


def describe(
    fun: Fun, options: PmapOptions, mesh: Mesh, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str:
    """Describe a program, in the same words in every process that runs the same program."""
    code = getattr(inspect.unwrap(fun), "__code__", None)
    where = f" (line {code.co_firstlineno})" if code is not None else ""
    name = f"{getattr(fun, '__module__', '')}.{getattr(fun, '__qualname__', type(fun).__name__)}"
    leaves = jax.tree.leaves((options.dynamic(args), kwargs))
    types = ", ".join(str(jax.typeof(leaf)) for leaf in leaves)
    static = ", ".join(repr(args[k]) for k in options.static)
    devices = ",".join(str(device.id) for device in mesh.devices.flat)
    text = (
        f"pmap of {name}{where} over {dict(mesh.shape)} on devices {devices}, in_axes "
        f"{options.in_axes}, out_axes {options.out_axes}, donated {options.donate}, "
        f"static ({static}), with ({types})"
    )
    return re.sub(r" at 0x[0-9a-f]+", "", text)  # addresses differ between processes


def map_block(
    fun: Fun,
    options: PmapOptions,
    frame: Frame,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    mesh: Mesh | AbstractMesh | None,
) -> Any:
    """``shard_map`` of ``fun`` over the last mapped axis of ``frame``.

    ``mesh`` is None in a nested pmap, which uses the mesh of the outer pmap.
    """
    label, size = frame.axes[frame.depth - 1]
    dynamic = options.dynamic(args)
    axes = leaf_axes(options, dynamic, kwargs)
    leaves, tree = jax.tree.flatten((dynamic, kwargs))

    def block(leaves: list[Any]) -> Any:
        rows = [unstack(leaf, axis, size) for leaf, axis in zip(leaves, axes, strict=True)]
        row_args, row_kwargs = jax.tree.unflatten(tree, rows)
        with enter_frame(frame):
            out = fun(*options.with_static(args, row_args), **row_kwargs)
        return restack(out, options.out_axes)

    out_axes, out_tree = flatten_axes(options.out_axes)
    mapped = jax.shard_map(
        block,
        mesh=mesh,
        in_specs=([spec_of(axis, label) for axis in axes],),
        # A negative axis is only accepted where it means axis 0: see restack.
        out_specs=out_tree.unflatten([spec_of(axis, label) for axis in out_axes]),
        axis_names={label},
        # With the check on, gradients of unvarying values are summed over the devices, unlike
        # with pmap (docs: gradients). It also refuses axis_index_groups.
        check_vma=False,
    )
    return mapped(leaves)


def unstack(leaf: Any, axis: Axis, size: int) -> Any:
    """The row of a block: without its device axis, of size 1."""
    if axis is None:
        return leaf
    if shape_of(leaf)[axis] != 1:
        raise ValueError(f"a block has {shape_of(leaf)[axis]} rows on each of {size} devices")
    return lax.squeeze(leaf, [axis])


def restack(out: Any, out_axes: Any) -> Any:
    """The outputs of one row as a block: with a device axis of size 1."""
    block, tree = jax.tree.flatten(out)
    for k, axis in enumerate(prefix_leaves(out_axes, out, "out_axes")):
        if axis is not None:
            rank = len(shape_of(block[k]))
            if not 0 <= axis <= rank and axis != -rank - 1:
                path = jax.tree_util.tree_flatten_with_path(out)[0][k][0]
                raise ValueError(_out_axes_message(axis, path, shape_of(block[k])))
            block[k] = lax.expand_dims(block[k], [axis])
    return jax.tree.unflatten(tree, block)


def _out_axes_message(axis: int, path: Any, shape: tuple[int, ...]) -> str:
    where, rank = f"output{jax.tree_util.keystr(path)} has shape {shape} on each device", len(shape)
    if axis > rank:
        return (
            f"pmap out_axes: axis {axis} is out of bounds for array of dimension {rank + 1}: "
            f"{where}, so its device axis can be 0 to {rank}."
        )
    return (
        f"pmap out_axes: {axis} is counted from the end, and {where}. Count from the front: "
        f"out_axes={max(axis + rank + 1, 0)}."
    )
