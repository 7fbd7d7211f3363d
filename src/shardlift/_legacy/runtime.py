"""Removed names of the runtime: types of devices, traces, lowered programs, TPUs of Colab."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import jax
import jax.extend.core
from jax import core

from shardlift import _compat

# ---- jaxlib.xla_extension


class _Platform(type):
    """A type whose instances are the devices of one platform."""

    platforms: tuple[str, ...] = ()

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, jax.Device) and instance.platform in cls.platforms


class CpuDevice(metaclass=_Platform):
    """``isinstance(device, CpuDevice)``, as until 0.4.11."""

    platforms = ("cpu",)


class GpuDevice(metaclass=_Platform):
    """The same for GPUs."""

    platforms = ("gpu", "cuda", "rocm")


class TpuDevice(metaclass=_Platform):
    """The same for TPUs."""

    platforms = ("tpu",)


# ---- jax.core


class CallPrimitive(jax.extend.core.Primitive):
    """A primitive that calls a function (until 0.11)."""

    multiple_results = True
    call_primitive = True


class MapPrimitive(jax.extend.core.Primitive):
    """A primitive that maps a function (until 0.6)."""

    multiple_results = True
    map_primitive = True


class Sublevel(int):
    """How deep in nested calls: 0 outside of any trace."""

    @property
    def level(self) -> int:
        """The number itself."""
        return int(self)


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
    if not (
        getattr(primitive, "call_primitive", False) or getattr(primitive, "map_primitive", False)
    ):
        return None, params
    return params["call_jaxpr"], {k: v for k, v in params.items() if k != "call_jaxpr"}


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


@contextlib.contextmanager
def spmd_mode(_: str) -> Iterator[None]:
    """No effect: arrays of several processes may be used everywhere (since 0.6)."""
    yield


def soft_pmap(
    fun: Callable[..., Any], axis_name: Any = None, in_axes: Any = 0, backend: Any = None
) -> Callable[..., Any]:
    """``fun`` over any number of rows, on one device (until 0.3.18)."""
    mapped = jax.vmap(fun, in_axes=in_axes, axis_name=axis_name or "soft_pmap")
    return jax.jit(mapped, backend=backend)


def _key(impl: str) -> Callable[[Any], jax.Array]:
    def make(seed: Any) -> jax.Array:
        """A key of this generator."""
        return jax.random.PRNGKey(seed, impl=impl)

    return make


threefry2x32_key, rbg_key, unsafe_rbg_key = map(_key, ("threefry2x32", "rbg", "unsafe_rbg"))


# ---- TPUs: a notebook's runtime has them, or has not; nothing is to be set up since 0.4


def setup_tpu(tpu_driver_version: Any = None) -> None:
    """Do nothing: Colab's and Kaggle's TPU runtimes need no setup; elsewhere JAX has no TPU."""


def cloud_tpu_init() -> None:
    """Do nothing: JAX does it when it is imported."""
