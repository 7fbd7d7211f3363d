"""Every difference between JAX versions, and every name that is not public JAX API.

Each entry says when it was last checked, and has a public fallback that is tested too.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, Protocol, cast

import jax

VERSION = tuple(int(part) for part in jax.__version__.split(".")[:2])

# 2026-11, jax 0.10.2, CPU with several devices: a jitted function that is given a donated, hence
# deleted, array ends the process with a segmentation fault; 0.12.0 raises "Array has been
# deleted". One device, and every device since 0.12, needs no help.
DELETED_INPUT_CRASHES = VERSION < (0, 12)


def raise_if_deleted(tree: Any) -> None:
    """Say what newer JAX says of an input that was donated before."""
    for leaf in jax.tree.leaves(tree):
        is_array = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
        if is_array and leaf.is_deleted():
            raise RuntimeError(f"Array has been deleted with shape={leaf.dtype}{list(leaf.shape)}.")


def jit_disabled() -> bool:
    """Is ``jax.disable_jit`` in force?"""
    return bool(jax.config.values["jax_disable_jit"])


def _tracing_public() -> Callable[[], bool]:
    """Are we under a JAX transformation? By public API: 0.5 microseconds a question."""
    # Not at the top: it brings Pallas with it, which takes 50 ms and more (2026-11, 0.12.0).
    import jax.extend.core as extend

    outside: list[Any] = []

    def look() -> None:
        outside.append(extend.get_opaque_trace_state())

    # A new thread is under no transformation, even if this module is imported under one.
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return lambda: bool(extend.get_opaque_trace_state() != outside[0])


def _tracing_private() -> Callable[[], bool]:
    """The same in 0.07 microseconds, from names that are not public (2026-11: 0.10.2, 0.12.0)."""
    from jax._src import core

    context, outside = core.trace_ctx, core.eval_trace
    if context.trace is not outside and not _tracing_public()():
        raise AttributeError("jax._src.core.trace_ctx means something else in this version")
    return lambda: context.trace is not outside


def _fastest_tracing() -> Callable[[], bool]:
    try:
        return _tracing_private()
    except (ImportError, AttributeError):
        return _tracing_public()


tracing: Callable[[], bool] = _fastest_tracing()


class Coordination(Protocol):
    """What is used of the client of JAX's coordination service. Times are in milliseconds."""

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = ...) -> None:
        """Leave ``value`` under ``key``."""

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """Every key that starts with ``key``, with its value; does not wait."""

    def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> str:
        """The value under ``key``, waiting until somebody leaves one."""

    def wait_at_barrier(self, barrier_id: str, timeout_in_ms: int) -> None:
        """Wait until all processes are here."""


def coordination() -> Coordination | None:
    """The coordination service of this job; None in a job of one, or where JAX moved it.

    Not public in 0.10.2 nor 0.12.0 (checked 2026-11): ``jax.distributed`` offers only
    ``initialize``, ``is_initialized`` and ``shutdown``. Callers fall back on
    ``jax.experimental.multihost_utils``, which has no time-out and does not say who is missing.
    """
    try:
        state = importlib.import_module("jax._src.distributed").global_state
        return cast("Coordination | None", state.client)
    except (ImportError, AttributeError):
        return None


def lines_of(equation: Any) -> list[tuple[str, int]]:
    """The lines of Python that made an equation of a jaxpr, the innermost first.

    Equations carry their traceback, of a type that is not public (2026-11: 0.10.2, 0.12.0).
    Where it is another one, nobody is told where an equation came from.
    """
    try:
        frames = equation.source_info.traceback.frames
        return [(frame.file_name, frame.line_num) for frame in frames]
    except AttributeError:
        return []


def transforms_of(equation: Any) -> str:
    """By which transformations an equation was made: ``transpose(jvp())`` in a backward pass.

    The text that compiled programs carry as the name of an operation (2026-11: 0.10.2, 0.12.0).
    Empty where equations have none.
    """
    try:
        return str(equation.source_info.name_stack)
    except AttributeError:
        return ""


def view_type(array: jax.Array, shape: tuple[int, ...]) -> Any:
    """What `rewrapped_as` wants to know of a view of ``array`` that has another shape."""
    return jax.core.ShapedArray(shape, array.dtype, weak_type=array.weak_type)


def _rewrap_public(array: jax.Array, aval: Any, sharding: jax.sharding.Sharding) -> jax.Array:
    """The buffers of ``array`` under another shape and sharding: 11 microseconds and more."""
    shards = [shard.data for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(aval.shape, sharding, shards)


def _rewrap_private() -> Callable[[Any, Any, jax.sharding.Sharding], jax.Array] | None:
    """The same in a third of the time; jax.pmap itself does it so (2026-11: 0.10.2, 0.12.0)."""
    try:
        array_type = importlib.import_module("jax._src.array").ArrayImpl
        return cast("Any", array_type._rewrap_with_aval_and_sharding)
    except (ImportError, AttributeError):
        return None


# Done for every output of a pmapped call in a job of many processes.
rewrapped_as = _rewrap_private() or _rewrap_public


def rewrapped(
    array: jax.Array, shape: tuple[int, ...], sharding: jax.sharding.Sharding
) -> jax.Array:
    """The buffers of ``array``, which may be a part of a larger one, as an array of ``shape``."""
    return rewrapped_as(array, view_type(array, shape), sharding)


def register_cache(cache: Any, for_what: str) -> None:
    """Have JAX clear ``cache`` with its own, by `jax.clear_caches` and `clear_backends`.

    The public name is ``jax.extend.backend.register_backend_cache``, but ``jax.extend`` takes
    50 ms and more to import (2026-11, 0.12.0).
    """
    try:
        register = importlib.import_module("jax._src.util").register_cache
    except (ImportError, AttributeError):
        register = importlib.import_module("jax.extend.backend").register_backend_cache
    register(cache, for_what)
