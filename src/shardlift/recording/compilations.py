"""Compilations of programs, the changes of arguments that caused them, and where those are."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
from jax.sharding import NamedSharding, Sharding

from shardlift.capture.schema import HOST, CompileReason, Move, ReasonKind
from shardlift.mapping.axes import shape_of

if TYPE_CHECKING:
    from shardlift.recording.site_records import SiteRecord

_COMPILED = "/jax/core/compile/backend_compile_duration"
_LONGEST = 120  # characters of a static value that are kept


class Running:
    """What is observed of a call while it runs."""

    __slots__ = ("busy", "compiled", "fitted", "moved", "moving")

    def __init__(self) -> None:
        self.busy = False  # was anything seen?
        self.moving = 0.0
        self.compiled: list[str] = []  # names of programs
        self.fitted: list[Any] | None = None  # the arguments that took the place of those given
        self.moved: list[Move] = []  # by the pmap


class _Thread(threading.local):
    running: Running | None = None
    taped: SiteRecord | None = None  # the site whose call is being put on tape
    spare: Running | None = None  # one that nothing was seen of, to be used again
    is_apart = False  # does the recorder itself run a function of the program?


here = _Thread()  # the call that this thread is in


def on_duration(event: str, duration_secs: float, **details: Any) -> None:  # noqa: ARG001
    """Listener of ``jax.monitoring``; called on the thread that compiled."""
    running = here.running
    if running is not None and event == _COMPILED:
        running.busy = True
        running.compiled.append(str(details.get("fun_name", "")))


# What determines which program a call needs: by its kind, and the argument that it belongs to.
Signature: TypeAlias = dict[tuple[ReasonKind, str], str]


def signature(leaves: dict[str, Any], tree: Any, static: dict[int, Any]) -> Signature:
    """The signature of a call with these leaves, by path."""
    found = {(ReasonKind.STRUCTURE, ""): str(tree)}
    for number, value in static.items():
        found[ReasonKind.STATIC_ARGUMENT, str(number)] = _clip(value)
    for path, leaf in leaves.items():
        weak = getattr(leaf, "weak_type", isinstance(leaf, (int, float, complex)))
        found[ReasonKind.TYPE, path] = type_name(leaf)
        found[ReasonKind.WEAK_TYPE, path] = "weak" if weak else "strong"
        found[ReasonKind.PLACEMENT, path] = placement_of(leaf)
    found[ReasonKind.CONTEXT, ""] = f"x64={jax.config.values.get('jax_enable_x64')}"
    return found


def type_name(leaf: Any) -> str:
    """``float32[8,4]``."""
    dtype = getattr(leaf, "dtype", type(leaf).__name__)
    return f"{dtype}[{','.join(map(str, shape_of(leaf)))}]"


def _clip(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # the user's own repr may fail; that is not for us to show
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def reasons(new: Signature, seen: list[Signature]) -> list[CompileReason]:
    """Why a program was compiled: what differs from the most similar earlier call."""
    if not seen:
        return [CompileReason(ReasonKind.FIRST_CALL)]
    nearest = min((_differences(old, new) for old in reversed(seen)), key=len)
    return nearest or [CompileReason(ReasonKind.SAME_ARGUMENTS)]


def _differences(old: Signature, new: Signature) -> list[CompileReason]:
    """What differs; of a leaf the first kind of difference."""
    found: dict[tuple[bool, str], CompileReason] = {}
    for (kind, path), value in new.items():
        before = old.get((kind, path), "")
        if before != value:
            if kind is ReasonKind.STRUCTURE:
                return [CompileReason(kind)]
            place = kind is ReasonKind.STATIC_ARGUMENT, path
            found.setdefault(place, CompileReason(kind, path, before, value))
    return [*found.values()]


def placement_of(leaf: Any) -> str:
    """Where a leaf of the arguments is."""
    return placement_by(leaf.sharding) if isinstance(leaf, jax.Array) else HOST


def placement_by(sharding: Sharding) -> str:
    """Where an array with this sharding is: ``cpu:3``, ``P('i') on cpu:0-7``."""
    all_devices: set[jax.Device] = sharding.device_set
    ids = sorted(device.id for device in all_devices)
    is_range = len(ids) > 1 and ids == [*range(ids[0], ids[-1] + 1)]
    numbers = f"{ids[0]}-{ids[-1]}" if is_range else ",".join(map(str, ids))
    devices = f"{next(iter(all_devices)).platform}:{numbers}"
    if len(ids) == 1:
        return devices
    if sharding.is_fully_replicated:
        return f"whole on each of {devices}"
    if isinstance(sharding, NamedSharding):
        names = (repr(str(name)) if name else "None" for name in sharding.spec)
        return f"P({', '.join(names)}) on {devices}"
    return f"{type(sharding).__name__} on {devices}"
