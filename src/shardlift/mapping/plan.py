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
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import jax
from jax import lax
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from shardlift.mapping import divergence
from shardlift.mapping.axes import (
    Axis,
    leaf_axes,
    prefix_leaves,
    shape_of,
    spec_of,
    specs_of,
    without_static,
)
from shardlift.mapping.call import dynamic_args, with_static
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
        if not (free or _may_trace.get()) and _has_other_names(options, mesh, args, kwargs):
            raise NotHotError
        with permit_trace(False):  # in the body, other pmaps are called
            return map_block(get_fun(), options, frame, args, kwargs, mesh)

    def rowwise(*args: Any, **kwargs: Any) -> Any:
        return map_block(get_fun(), _map_everything(options), frame, args, kwargs, mesh)

    def checked(*args: Any, **kwargs: Any) -> Any:
        out = program(*args, **kwargs)  # first: if the body raises, there is nothing to agree on
        divergence.agree(describe(get_fun(), options, mesh, args, kwargs))
        return out

    called = checked if spans else program
    for function in (program, called, rowwise):
        function.__name__ = function.__qualname__ = name
    argnums: Any = {"static_argnums": options.static, "donate_argnums": options.donate}
    jitted = jax.jit(called, **argnums)
    ahead = jax.jit(program, **argnums) if spans else jitted
    if not spans or options.view == "global":
        return Plan(mesh, label, inner, jitted, ahead, None, jitted, None)
    # Not at the top: a job of one process needs neither.
    from shardlift.mapping.processes.bridge import Bridge
    from shardlift.mapping.processes.local_program import LocalProgram

    bridge = Bridge(mesh, options)
    local = LocalProgram(jitted, bridge, options)
    by_row = jax.jit(rowwise, static_argnums=options.static)
    return Plan(mesh, label, inner, jitted, ahead, bridge, local, by_row)


def _has_other_names(
    options: PmapOptions, mesh: Mesh, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether an argument is on a mesh whose axes have other names."""
    leaves = jax.tree.leaves((dynamic_args(options, args), kwargs))
    names = {jax.typeof(leaf).sharding.mesh.axis_names for leaf in leaves}
    return not names <= {(), mesh.axis_names}


def _map_everything(options: PmapOptions) -> PmapOptions:
    """The same options, with axis 0 in place of None: one row per device of every value."""

    def mapped(axes: Any) -> Any:
        leaves, tree = flatten_axes(axes)
        return tree.unflatten([0 if axis is None else axis for axis in leaves])

    return dataclasses.replace(
        options, in_axes=mapped(options.in_axes), out_axes=mapped(options.out_axes)
    )


def describe(
    fun: Fun, options: PmapOptions, mesh: Mesh, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str:
    """Describe a program, in the same words in every process that runs the same program."""
    code = getattr(inspect.unwrap(fun), "__code__", None)
    where = f" (line {code.co_firstlineno})" if code is not None else ""
    name = f"{getattr(fun, '__module__', '')}.{getattr(fun, '__qualname__', type(fun).__name__)}"
    leaves = jax.tree.leaves((dynamic_args(options, args), kwargs))
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
    dynamic = dynamic_args(options, args)
    axes = leaf_axes(without_static(options.in_axes, options.static), dynamic, kwargs)
    leaves, tree = jax.tree.flatten((dynamic, kwargs))

    def block(leaves: list[Any]) -> Any:
        rows = [unstack(leaf, axis, size) for leaf, axis in zip(leaves, axes, strict=True)]
        row_args, row_kwargs = jax.tree.unflatten(tree, rows)
        with enter_frame(frame):
            out = fun(*with_static(options, args, row_args), **row_kwargs)
        return restack(out, options.out_axes)

    # A negative axis is only accepted where it means axis 0: see restack.
    out_axes = jax.tree.map(lambda axis: max(axis, 0), options.out_axes)
    mapped = jax.shard_map(
        block,
        mesh=mesh,
        in_specs=([spec_of(axis, label) for axis in axes],),
        out_specs=specs_of(out_axes, label),
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
    axes = prefix_leaves(out_axes, out, "out_axes")
    leaves, tree = jax.tree.flatten(out)
    if any(axis is not None for axis in axes):
        _check_out_axes(out, leaves, axes)
    block = [
        leaf if axis is None else lax.expand_dims(leaf, [axis])
        for leaf, axis in zip(leaves, axes, strict=True)
    ]
    return jax.tree.unflatten(tree, block)


def _check_out_axes(out: Any, leaves: Sequence[Any], axes: Sequence[Axis]) -> None:
    for k, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        rank = len(shape_of(leaf))
        if axis is None or 0 <= axis <= rank or axis == -rank - 1:
            continue
        where = jax.tree_util.keystr(jax.tree_util.tree_flatten_with_path(out)[0][k][0])
        if axis > rank:
            raise ValueError(
                f"pmap out_axes: axis {axis} is out of bounds for array of dimension {rank + 1}: "
                f"output{where} has shape {shape_of(leaf)} on each device, so its device axis "
                f"can be 0 to {rank}."
            )
        raise ValueError(
            f"pmap out_axes: {axis} is counted from the end, and output{where} has shape "
            f"{shape_of(leaf)} on each device. Count from the front: "
            f"out_axes={max(axis + rank + 1, 0)}."
        )
