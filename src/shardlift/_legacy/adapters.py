"""Removed names, built on their successors, where the meaning is certain."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.extend.core
import jax.extend.linear_util
import numpy as np
from jax import core, lax

from shardlift import _compat


def do_nothing(*_: Any, **__: Any) -> None:
    """What has had no effect since: to set up a TPU, to name the parts of a type in messages."""


# ---- jax


def xla_computation(
    fun: Callable[..., Any],
    static_argnums: Any = (),
    *_: Any,
    return_shape: bool = False,
    **__: Any,
) -> Callable[..., Any]:
    """The function that returns the XLA program of ``fun``, for arguments (until 0.4.36)."""
    jitted = jax.jit(fun, static_argnums=static_argnums)

    def lower(*args: Any, **kwargs: Any) -> Any:
        lowered = jitted.lower(*args, **kwargs)
        program = lowered.compiler_ir("hlo")
        return (program, lowered.out_info) if return_shape else program

    return lower


def soft_pmap(
    fun: Callable[..., Any], axis_name: Any = None, in_axes: Any = 0, backend: Any = None
) -> Callable[..., Any]:
    """``fun`` over any number of rows, on one device (until 0.3.18)."""
    mapped = jax.vmap(fun, in_axes=in_axes, axis_name=axis_name or "soft_pmap")
    return jax.jit(mapped, backend=backend)


# ---- jax.ops.index_update and its family (until 0.3.2): x.at[...] took their place in 0.2.22


def _updater(method: str) -> Callable[..., jax.Array]:
    def update(
        x: Any, idx: Any, y: Any, indices_are_sorted: bool = False, unique_indices: bool = False
    ) -> Any:
        """``x`` with ``y`` written, or combined, at ``idx``."""
        sure = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices}
        return getattr(jax.numpy.asarray(x).at[idx], method)(y, **sure)

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


class ConcreteArray(core.ShapedArray):
    """An abstract value with its concrete value; JAX has none since 0.4.36."""


class CallPrimitive(jax.extend.core.Primitive):
    """A primitive that calls a function (until 0.11)."""

    multiple_results = True
    call_primitive = True


class MapPrimitive(jax.extend.core.Primitive):
    """A primitive that maps a function (until 0.6)."""

    multiple_results = True
    map_primitive = True


class AxisFrame(int):
    """The size of a mapped axis: an int (0.4.36 to 0.6), or by ``.size`` (before)."""

    name: Any
    size = property(int)


def axis_frame(axis_name: Any, main_trace: Any = None) -> AxisFrame:  # noqa: ARG001
    """The size of the mapped axis of this name; NameError if there is none."""
    frame = AxisFrame(lax.axis_size(axis_name))
    frame.name = axis_name
    return frame


class Sublevel(int):
    """How deep in nested calls: 0 outside of any trace."""

    level = property(int)


def cur_sublevel() -> Sublevel:
    """1 while a function is traced, else 0; JAX has counted no calls since 0.4.36."""
    return Sublevel(_compat.tracing())


class _TraceState:
    """``thread_local_state`` as haiku and brax read it: which trace is the current one?"""

    @property
    def trace_state(self) -> _TraceState:
        return self

    trace_stack = trace_state

    @property
    def dynamic(self) -> SimpleNamespace:
        which = getattr(jax.extend.core, "get_opaque_trace_state", None)
        state = (which or core.get_opaque_trace_state)(convention="nnx")
        return SimpleNamespace(trace_type=state, level=int(cur_sublevel()))

    @property
    def stack(self) -> list[SimpleNamespace]:
        return [self.dynamic]


thread_local_state = _TraceState()


def extract_call_jaxpr(primitive: Any, params: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The jaxpr that a call or a map calls, and its other parameters."""
    if not any(getattr(primitive, f"{kind}_primitive", False) for kind in ("call", "map")):
        return None, params
    return params["call_jaxpr"], {k: v for k, v in params.items() if k != "call_jaxpr"}


def raise_to_shaped(aval: Any, weak_type: bool | None = None) -> Any:
    """An abstract value without its concrete value: since 0.4.36 none has one."""
    if weak_type is None or weak_type == getattr(aval, "weak_type", weak_type):
        return aval
    return aval.update(weak_type=weak_type)


def full_lower(value: Any) -> Any:
    """``value``: since 0.4.36 there is nothing to lower."""
    return value


def wrap_init(fun: Any, params: Any = None, *, debug_info: Any = None) -> Any:
    """``jax.extend.linear_util.wrap_init``, which needs ``debug_info`` since 0.7."""
    if debug_info is None:
        debug_info = jax.api_util.debug_info("linear_util.wrap_init", fun, (), {})
    return jax.extend.linear_util.wrap_init(fun, params or {}, debug_info=debug_info)


# ---- jax.experimental, jax.lax, jax.numpy, jax.random


def enable_x64(new_val: bool = True) -> Any:
    """``with enable_x64():`` 64 bits inside."""
    return jax.enable_x64(new_val)


disable_x64 = functools.partial(jax.enable_x64, False)
pvary = functools.partial(lax.pcast, to="varying")


def tie_in(x: Any, y: Any) -> Any:  # noqa: ARG001
    """``y``: it has done nothing since omnistaging (0.2)."""
    return y


NINF, NZERO, PZERO = -np.inf, -0.0, 0.0
msort = functools.partial(jax.numpy.sort, axis=0)
# Each line along the axis shuffled independently, with the same random bits as before.
shuffle = functools.partial(jax.random.permutation, independent=True)
threefry2x32_key = functools.partial(jax.random.PRNGKey, impl="threefry2x32")
rbg_key = functools.partial(jax.random.PRNGKey, impl="rbg")
unsafe_rbg_key = functools.partial(jax.random.PRNGKey, impl="unsafe_rbg")


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


# ---- jax.experimental.host_callback (until 0.8)

_on_host = functools.partial(jax.tree.map, np.asarray)


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
    title = () if what is None else (f"what: {what}",)
    return id_tap(lambda a, _: print(*title, a, file=output_stream), arg, result=result)


def barrier_wait(logging_name: str | None = None) -> None:  # noqa: ARG001
    """Wait until all taps have been called."""
    jax.effects_barrier()
