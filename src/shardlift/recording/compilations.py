"""When programs are compiled, and what about the arguments made it necessary."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, NamedTuple

import jax

from shardlift.mapping.axes import shape_of

_COMPILED = "/jax/core/compile/backend_compile_duration"
_TRACED = "/jax/core/compile/jaxpr_trace_duration"
_LONGEST = 120  # characters of a static value that are kept
MOST_REASONS = 8


class Running:
    """What is seen of a call while it runs."""

    __slots__ = ("busy", "compiled", "conversion", "fitted", "moved", "moving", "traced")

    def __init__(self) -> None:
        self.busy = False  # was anything seen?
        self.moving = 0.0
        self.conversion = 0.0
        self.compiled: list[tuple[str, float]] = []  # names of programs, and how long they took
        self.traced: list[str] = []
        self.fitted: list[Any] | None = None  # the arguments that took the place of those given
        self.moved: list[tuple[str, Any, Any, int]] = []  # path, from, to, bytes


class _Thread(threading.local):
    running: Running | None = None
    spare: Running | None = None  # one that nothing was seen of, to be used again


here = _Thread()  # the call that this thread is in


def on_duration(event: str, duration_secs: float, **details: Any) -> None:
    """Told by ``jax.monitoring`` how long something took, on the thread that did it."""
    running = here.running
    if running is None or event not in (_COMPILED, _TRACED):
        return
    running.busy = True
    if event == _COMPILED:
        running.compiled.append((str(details.get("fun_name", "")), duration_secs))
    else:
        running.traced.append(str(details.get("fun_name", "")))


def listen() -> None:
    """Have JAX tell."""
    jax.monitoring.register_event_duration_secs_listener(on_duration)


def stop_listening() -> None:
    """Have JAX tell no more; the program may have cleared all listeners meanwhile."""
    with contextlib.suppress(AssertionError, ValueError):
        jax.monitoring.unregister_event_duration_listener(on_duration)


class Signature(NamedTuple):
    """What decides which program a call needs."""

    tree: str
    types: dict[str, str]  # by path: dtype, shape
    weak: dict[str, bool]
    places: dict[str, str]
    static: dict[int, str]
    context: str


def signature(leaves: dict[str, Any], tree: Any, static: dict[int, Any], shown: Any) -> Signature:
    """Of the leaves by path; ``shown`` says where a leaf lies."""
    return Signature(
        tree=str(tree),
        types={path: type_name(leaf) for path, leaf in leaves.items()},
        weak={path: _is_weak(leaf) for path, leaf in leaves.items()},
        places={path: shown(leaf) for path, leaf in leaves.items()},
        static={k: _clipped(value) for k, value in static.items()},
        context=f"x64={jax.config.values.get('jax_enable_x64')}",
    )


def type_name(leaf: Any) -> str:
    """``float32[8,4]``."""
    dtype = getattr(leaf, "dtype", type(leaf).__name__)
    return f"{dtype}[{','.join(map(str, shape_of(leaf)))}]"


def _is_weak(leaf: Any) -> bool:
    return bool(getattr(leaf, "weak_type", isinstance(leaf, (int, float, complex))))


def _clipped(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # the user's own repr may fail; that is not for us to show
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def reasons(new: Signature, seen: list[Signature]) -> tuple[str, ...]:
    """Why a program was needed, against the most similar call before."""
    if not seen:
        return ("first call",)
    nearest = min((_differences(old, new) for old in reversed(seen)), key=len)
    if not nearest:
        return ("the same arguments as before: pmap was given a new function, or caches were lost",)
    more = len(nearest) - MOST_REASONS
    kept = nearest[:MOST_REASONS]
    return tuple([*kept, f"and {more} more"] if more > 0 else kept)


def _differences(old: Signature, new: Signature) -> list[str]:
    if old.tree != new.tree:
        return ["the arguments have another structure"]
    found = [
        f"static argument {k}: {old.static.get(k)} → {value}"
        for k, value in new.static.items()
        if old.static.get(k) != value
    ]
    for path, value in new.types.items():
        if old.types.get(path) != value:
            found.append(f"{path}: {old.types.get(path)} → {value}")
        elif old.weak.get(path) != new.weak[path]:
            found.append(f"{path}: {'strongly' if new.weak[path] else 'weakly'} typed before")
        elif old.places.get(path) != new.places[path]:
            found.append(f"{path}: {old.places[path]} → {new.places[path]}")
    if old.context != new.context:
        found.append(f"{old.context} → {new.context}")
    return found
