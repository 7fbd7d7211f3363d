"""Why programs were compiled, in words."""

from __future__ import annotations

from shardlift.capture.schema import Compile, Reason, ReasonKind

_WHOLE = {
    ReasonKind.FIRST_CALL: "first call",
    ReasonKind.SAME_ARGUMENTS: "the same arguments as before: pmap was given a new function, or "
    "caches were lost",
    ReasonKind.STRUCTURE: "the arguments have another structure",
    ReasonKind.UNKNOWN: "not known",
}


def reason_text(reason: Reason) -> str:
    """One reason.

    >>> reason_text(Reason(ReasonKind.TYPE, "x", "float32[8,4]", "float32[8,5]"))
    'x: float32[8,4] → float32[8,5]'
    """
    if reason.kind in _WHOLE:
        return _WHOLE[reason.kind]
    if reason.kind is ReasonKind.WEAK_TYPE:
        return f"{reason.path}: {reason.before}ly typed before"
    change = f"{reason.before} → {reason.after}"
    if reason.kind is ReasonKind.STATIC_ARGUMENT:
        return f"static argument {reason.path}: {change}"
    return f"{reason.path}: {change}" if reason.path else change


def all_reasons(compiled: Compile) -> str:
    """All reasons for one compilation."""
    left_out = compiled.reasons_left_out
    more = [f"and {left_out} more"] if left_out else []
    return "; ".join([*map(reason_text, compiled.reasons), *more])


_ADVICE = {
    ReasonKind.SAME_ARGUMENTS: "Make the pmapped function once, outside the loop.",
    ReasonKind.STATIC_ARGUMENT: "Pass what changes as an array, not as a static argument.",
    ReasonKind.WEAK_TYPE: "Give the argument a dtype, so that it is the same at every call.",
    ReasonKind.PLACEMENT: "Place it once as it will be on later calls, with jax.device_put.",
    ReasonKind.STRUCTURE: "Pass arguments of one structure at every call.",
    ReasonKind.CONTEXT: "Set JAX's options once, before the first call.",
}
_ONE_SHAPE = "Bring every batch to one shape: shardlift.pad_shard_unpad pads and cuts."


def advice(reason: Reason | None) -> str:
    """What keeps a program from being compiled again for this reason."""
    return _ONE_SHAPE if reason is None else _ADVICE.get(reason.kind, _ONE_SHAPE)
