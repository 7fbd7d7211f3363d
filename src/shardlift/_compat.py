"""Every difference between JAX versions, each dated. Nothing else in the package asks for one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core

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
    outside: list[Any] = []

    def look() -> None:
        outside.append(jax.extend.core.get_opaque_trace_state())

    # A new thread is under no transformation, even if this module is imported under one.
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return lambda: bool(jax.extend.core.get_opaque_trace_state() != outside[0])


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


# Asked on every pmapped call, so it has to be fast.
tracing: Callable[[], bool] = _fastest_tracing()
