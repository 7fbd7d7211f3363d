"""Removed functions, built on their successors, where the meaning is certain."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core
import jax.extend.linear_util
import numpy as np
from jax import lax

from shardlift import _compat

# ---- jax.ops.index_update and its family (until 0.3.2): x.at[...] took their place in 0.2.22


class _Index:
    """``jax.ops.index[1, :]``: the index itself."""

    def __getitem__(self, index: Any) -> Any:
        return index


index = _Index()


def _updater(method: str) -> Callable[..., jax.Array]:
    def update(
        x: Any,
        idx: Any,
        y: Any,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> jax.Array:
        """``x`` with ``y`` written, or combined, at ``idx``."""
        at = jax.numpy.asarray(x).at[idx]
        updated: jax.Array = getattr(at, method)(
            y, indices_are_sorted=indices_are_sorted, unique_indices=unique_indices
        )
        return updated

    return update


index_update = _updater("set")
index_add = _updater("add")
index_mul = _updater("multiply")
index_min = _updater("min")
index_max = _updater("max")


# ---- jax.core and jax.interpreters

# A pmap is a jitted shard_map now: no equation has this primitive any more.
xla_pmap_p = jax.extend.core.Primitive("xla_pmap")
xla_pmap_p.multiple_results = True


class MapTracer:
    """The tracer of a pmap that is computed eagerly (until 0.8); nothing is one."""


not_mapped = None  # the batch dimension of an argument that is not mapped


class AxisFrame(int):
    """The size of a mapped axis: an int (0.4.36 to 0.6), or by ``.size`` (before)."""

    name: Any

    @property
    def size(self) -> int:
        """The size itself."""
        return int(self)


def axis_frame(axis_name: Any, main_trace: Any = None) -> AxisFrame:  # noqa: ARG001
    """The size of the mapped axis of this name; NameError if there is none."""
    frame = AxisFrame(lax.axis_size(axis_name))
    frame.name = axis_name
    return frame


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:  # noqa: N802
    """The names of the mapped axes in scope."""
    return _compat.axis_names()


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:  # noqa: N802
    """Is a JAX transformation active?"""
    return _compat.tracing()


class ConcreteArray(jax.core.ShapedArray):
    """An abstract value with its concrete value; JAX has none since 0.4.36."""


def raise_to_shaped(aval: Any, weak_type: bool | None = None) -> Any:
    """An abstract value without its concrete value: since 0.4.36 none has one."""
    if weak_type is None or weak_type == getattr(aval, "weak_type", weak_type):
        return aval
    return aval.update(weak_type=weak_type)


def full_lower(value: Any) -> Any:
    """``value``: since 0.4.36 there is nothing to lower."""
    return value


# ---- jax.linear_util (until 0.4.24)


def wrap_init(fun: Any, params: Any = None, *, debug_info: Any = None) -> Any:
    """``jax.extend.linear_util.wrap_init``, which needs ``debug_info`` since 0.7."""
    if debug_info is None:
        debug_info = jax.api_util.debug_info("linear_util.wrap_init", fun, (), {})
    return jax.extend.linear_util.wrap_init(fun, params or {}, debug_info=debug_info)


# ---- jax.experimental


def enable_x64(new_val: bool = True) -> Any:
    """``with enable_x64():`` 64 bits inside."""
    return jax.enable_x64(new_val)


def disable_x64() -> Any:
    """``with disable_x64():`` 32 bits inside."""
    return jax.enable_x64(False)


# ---- jax.tree_util


def register_keypaths(ty: type, handler: Callable[[Any], Any]) -> None:
    """Do nothing: it named the parts of a type in messages (until 0.4.24), now numbered."""


# ---- jax.lax, jax.numpy, jax.nn, jax.random


def pvary(x: Any, axis_name: Any) -> Any:
    """``jax.lax.pcast`` to varying."""
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    return lax.pcast(x, tuple(names), to="varying")


def tie_in(x: Any, y: Any) -> Any:  # noqa: ARG001
    """``y``: it has done nothing since omnistaging (0.2)."""
    return y


NINF, NZERO, PZERO = -np.inf, -0.0, 0.0


def msort(a: Any) -> jax.Array:
    """Sorted along the first axis."""
    return jax.numpy.sort(a, axis=0)


def shuffle(key: Any, x: Any, axis: int = 0) -> jax.Array:
    """Each line along ``axis`` shuffled independently, with the same random bits as before."""
    return jax.random.permutation(key, x, axis=axis, independent=True)


def to_dlpack(x: Any, stream: Any = None, **_: Any) -> Any:
    """``x`` as a DLPack capsule, for another framework (until 0.7)."""
    return x.__dlpack__(stream=stream)


# ---- numpy (until 2.0)


def in1d(ar1: Any, ar2: Any, *args: Any, **options: Any) -> Any:
    """``numpy.isin`` of a flat array."""
    return np.isin(np.ravel(ar1), ar2, *args, **options)


def issctype(rep: Any) -> bool:
    """Is it the type, or the dtype, of a scalar?"""
    if not isinstance(rep, (type, np.dtype)):
        return False
    generic = isinstance(rep, type) and issubclass(rep, np.generic)
    return generic or np.dtype(rep).type is not np.object_


def asfarray(a: Any, dtype: Any = np.float64) -> Any:
    """``a`` as an array of floating point numbers."""
    return np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else np.float64)


def sort_rows(a: Any) -> Any:
    """``numpy.msort``."""
    return np.sort(a, axis=0)


# ---- jax.experimental.host_callback (until 0.8)


def call(callback: Callable[..., Any], arg: Any, *, result_shape: Any = None, **_: Any) -> Any:
    """The value of ``callback(arg)`` on the host, with the shape of ``result_shape``."""
    from jax.experimental import io_callback

    return io_callback(lambda a: callback(_on_host(a)), result_shape, arg)


def id_tap(tap_func: Callable[..., Any], arg: Any, *, result: Any = None, **_: Any) -> Any:
    """Call ``tap_func(arg, transforms)`` on the host; returns ``result``, or ``arg``."""
    jax.debug.callback(lambda a: tap_func(_on_host(a), ()), arg)
    return arg if result is None else result


def id_print(
    arg: Any, *, result: Any = None, what: str | None = None, output_stream: Any = None, **_: Any
) -> Any:
    """Print ``arg``; returns ``result``, or ``arg``."""

    def show(a: Any, _: Any) -> None:
        print(*(() if what is None else (f"what: {what}",)), a, file=output_stream)

    return id_tap(show, arg, result=result)


def barrier_wait(logging_name: str | None = None) -> None:  # noqa: ARG001
    """Wait until all taps have been called."""
    jax.effects_barrier()


_on_host = functools.partial(jax.tree.map, np.asarray)
