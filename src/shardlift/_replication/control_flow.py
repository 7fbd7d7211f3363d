"""Rules for equations that hold jaxprs: calls, loops, branches and maps."""

from collections.abc import Callable, Sequence
from typing import Any

from shardlift import _compat
from shardlift._replication.interpreter import (
    TORN,
    Axes,
    Cause,
    Interpreter,
    MapScope,
    Rule,
    Value,
    all_of,
    axes_of,
    both,
    opaque,
    used,
    varying,
)
from shardlift._replication.primitives import IN_FUNCTIONS, WITH_FUNCTION, is_jax_primitive


def _call(walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> Sequence[Value]:
    inner = called_jaxpr(eqn)
    if inner is None:
        return opaque(eqn, operands, scope, "calls a function in an unknown way")
    return walk.run(inner, operands, scope)


def called_jaxpr(eqn: Any) -> Any:
    """The jaxpr that a call runs on its operands; None if there is none."""
    held = [eqn.params.get(name) for name in ("jaxpr", "call_jaxpr", "call", "fwd_jaxpr")]
    jaxprs = [getattr(inner, "jaxpr", inner) for inner in held if inner is not None]
    return next((jaxpr for jaxpr in jaxprs if len(jaxpr.invars) == len(eqn.invars)), None)


# ---- loops


def _fixed_point(start: list[Value], step: Callable[[list[Value]], list[Value]]) -> list[Value]:
    """The carried values, starting from ``start``, once a step changes them no more."""
    carry = start
    while True:
        after = [both(old, new) for old, new in zip(carry, step(carry), strict=True)]
        if [*map(axes_of, carry)] == [*map(axes_of, after)]:
            return carry
        carry = after


def _scan(walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> Sequence[Value]:
    parts = _compat.scan_parts(eqn)
    if parts is None:
        return opaque(eqn, operands, scope, "has an unknown form")
    n_consts, n_carry = parts
    consts, xs = operands[:n_consts], operands[n_consts + n_carry :]

    def body(carry: list[Value]) -> list[Value]:
        return walk.run(eqn.params["jaxpr"], [*consts, *carry, *xs], scope)

    carry = _fixed_point(operands[n_consts : n_consts + n_carry], lambda c: body(c)[:n_carry])
    return [*carry, *body(carry)[n_carry:]]


def _while(walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> Sequence[Value]:
    """Devices with an equal predicate run equally many turns; the others diverge here."""
    params = eqn.params
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts = operands[:n_cond], operands[n_cond : n_cond + n_body]

    def step(state: list[Value]) -> list[Value]:
        predicate, *carry = state
        inside = _under(scope, predicate)
        again = walk.run(params["cond_jaxpr"], [*cond_consts, *carry], inside)
        after = walk.run(params["body_jaxpr"], [*body_consts, *carry], inside)
        return [all_of(again), *after]

    predicate, *carry = _fixed_point([None, *operands[n_cond + n_body :]], step)
    return [both(value, predicate) for value in carry]


def _under(scope: MapScope, predicate: Value) -> MapScope:
    return scope._replace(control=scope.control | axes_of(predicate))


# ---- branches


def _cond(walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> Sequence[Value]:
    index, rest = used(operands[0], eqn), operands[1:]
    branches = eqn.params["branches"]
    inside = _under(scope, index)
    results = [walk.run(branch, rest, inside) for branch in branches]
    outputs = [all_of(values) for values in zip(*results, strict=True)]
    if index is None:
        return outputs
    # An output that every branch passes through does not depend on the branch taken.
    passed = []
    for branch in branches:
        jaxpr = getattr(branch, "jaxpr", branch)
        numbers = {id(var): n for n, var in enumerate(jaxpr.invars)}
        passed.append([numbers.get(id(var)) for var in jaxpr.outvars])
    return [
        value if len({*inputs}) == 1 and inputs[0] is not None else both(value, index)
        for value, inputs in zip(outputs, zip(*passed, strict=True), strict=True)
    ]


# ---- others


def _with_function(
    _: Interpreter, eqn: Any, operands: list[Value], scope: MapScope
) -> Sequence[Value]:
    """A plain function of its operands, if the jaxprs that it holds only compute."""
    for jaxpr in _compat.inner_jaxprs(eqn.params):
        for inner in _compat.equations(jaxpr):
            name = inner.primitive.name
            if name not in IN_FUNCTIONS or not is_jax_primitive(inner.primitive):
                why = "holds a function that does more than compute on its own device"
                return opaque(eqn, operands, scope, why)
    return [used(all_of(operands), eqn)] * len(eqn.outvars)


def _nested_map(
    walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope
) -> Sequence[Value]:
    """A map inside a map: a value outside is all of its parts inside."""
    axes = _compat.map_axes(eqn)
    if axes is None or any(name in scope.names for name in axes):
        return opaque(eqn, operands, scope, "is a map of an unknown form")
    if TORN in scope.control:
        why = "is a map under a predicate that is not equal on its devices"
        return opaque(eqn, operands, scope, why)
    inside = scope._replace(sizes=(*scope.sizes, *axes.items()))
    new, cause = inside.wide(axes), Cause(None, eqn, "splits its operand over devices")
    inputs = [
        enter_map(value, spec, new, cause)
        for value, spec in zip(operands, eqn.params["in_specs"], strict=True)
    ]
    outputs = walk.run(eqn.params["jaxpr"], inputs, inside)
    return [
        leave_map(value, spec, new)
        for value, spec in zip(outputs, eqn.params["out_specs"], strict=True)
    ]


def enter_map(value: Value, spec: Any, new: Axes, cause: Cause) -> Value:
    """A value inside a map over the axes ``new``, which splits it over devices by ``spec``."""
    axes = axes_of(value)
    axes |= new if TORN in axes else new & _split_over(spec)
    return varying(axes, cause if value is None else value.cause)


def leave_map(value: Value, spec: Any, new: Axes) -> Value:
    """A value outside the map over ``new`` that joins it by ``spec``.

    It is torn if devices that hold copies by ``spec`` may hold different values.
    """
    if value is None:
        return None
    torn = {TORN} if value.axes & new - _split_over(spec) else set()
    return varying(value.axes - new | torn, value.cause)


def _split_over(spec: Any) -> Axes:
    """The axes over which ``spec`` splits a value."""
    parts = (entry if isinstance(entry, tuple) else (entry,) for entry in spec)
    return frozenset(name for part in parts for name in part)


CALLS = (
    "call", "closed_call", "eval_jaxpr", "jit", "remat2", "custom_jvp_call", "custom_vjp_call",
    "custom_vmap_call", "remat_opt", "composite", "xla_metadata_call",
)  # fmt: skip

RULES: dict[str, Rule] = {
    **dict.fromkeys(CALLS, _call),
    **dict.fromkeys(WITH_FUNCTION, _with_function),
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "shard_map": _nested_map,
}
