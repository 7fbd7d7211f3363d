"""Texts on why programs were compiled, and how to avoid it."""

from __future__ import annotations

from shardlift.capture.schema import Compile, CompileReason, ReasonKind

_WHOLE = {
    ReasonKind.FIRST_CALL: "first call",
    ReasonKind.SAME_ARGUMENTS: "the arguments are the same as before, so pmap was given a new "
    "function, or caches were cleared",
    ReasonKind.STRUCTURE: "the structure of the arguments changed",
    ReasonKind.UNKNOWN: "of an unknown change",
}


def reason_text(reason: CompileReason) -> str:
    """One reason as text.

    >>> reason_text(CompileReason(ReasonKind.TYPE, "x", "float32[8,4]", "float32[8,5]"))
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
    ReasonKind.SAME_ARGUMENTS: "Create the pmapped function once, outside the loop.",
    ReasonKind.STATIC_ARGUMENT: "Pass values that change as arrays, not as static arguments.",
    ReasonKind.WEAK_TYPE: "Give the argument a dtype, so that it is the same at every call.",
    ReasonKind.PLACEMENT: "Place it once with jax.device_put, as it will be on later calls.",
    ReasonKind.STRUCTURE: "Pass arguments of the same structure at every call.",
    ReasonKind.CONTEXT: "Set JAX's options once, before the first call.",
}
_ONE_SHAPE = "Use the same shape for every batch: shardlift.pad_shard_unpad pads and cuts."


def advice(reason: CompileReason | None) -> str:
    """How to avoid another compilation for this reason."""
    return _ONE_SHAPE if reason is None else _ADVICE.get(reason.kind, _ONE_SHAPE)
