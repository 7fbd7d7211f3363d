"""Rules for equations that hold jaxprs: calls, loops, branches, kernels and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shardlift import _compat
from shardlift._replication.interpreter import (
    Cause,
    Interpreter,
    MapScope,
    Rule,
    Value,
    Varying,
    all_of,
    both,
    devices_apart,
    opaque,
    used,
    varying,
)
from shardlift._replication.partition import Space, coordinates, lift, meet, project
from shardlift._replication.primitives import IN_KERNEL, PLAIN, WITH_FUNCTION, is_jax_primitive


def _call(walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> Sequence[Value]:
    inner = called_jaxpr(eqn)
    if inner is None:
        return opaque(eqn, scope, "calls a function in an unknown way")
    return walk.run(inner, operands, scope)


def called_jaxpr(eqn: Any) -> Any:
    """The jaxpr that a call runs on its operands; None if there is none."""
    held = [eqn.params.get(name) for name in ("jaxpr", "call_jaxpr", "call", "fwd_jaxpr")]
    jaxprs = [getattr(inner, "jaxpr", inner) for inner in held if inner is not None]
    return next((jaxpr for jaxpr in jaxprs if len(jaxpr.invars) == len(eqn.invars)), None)


def _high_level(
    walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope
) -> Sequence[Value]:
    if id(eqn) not in walk.expanded:
        axes = list(zip(scope.space.names, scope.space.sizes, strict=True))
        walk.expanded[id(eqn)] = eqn, _compat.expand(eqn, axes)
    inner = walk.expanded[id(eqn)][1]
    if inner is None:
        return opaque(eqn, scope, "is an unknown primitive")
    return walk.run(inner, operands, scope)


# ---- loops


def _fixed_point(start: list[Value], step: Callable[[list[Value]], list[Value]]) -> list[Value]:
    """The carried values, starting from ``start``, once a step changes them no more."""
    carry = start
    while True:
        after = [both(old, new) for old, new in zip(carry, step(carry), strict=True)]
        if [*map(devices_apart, carry)] == [*map(devices_apart, after)]:
            return carry
        carry = after


def _scan(walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> Sequence[Value]:
    parts = _compat.scan_parts(eqn)
    if parts is None:
        return opaque(eqn, scope, "has an unknown form")
    n_consts, n_carry = parts
    consts, xs = operands[:n_consts], operands[n_consts + n_carry :]

    def body(carry: list[Value]) -> list[Value]:
        return walk.run(eqn.params["jaxpr"], [*consts, *carry, *xs], scope)

    carry = _fixed_point(operands[n_consts : n_consts + n_carry], lambda c: body(c)[:n_carry])
    return [*carry, *body(carry)[n_carry:]]


def _while(walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> Sequence[Value]:
    """Devices with equal predicates run equally many turns; the others diverge here."""
    params = eqn.params
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts = operands[:n_cond], operands[n_cond : n_cond + n_body]

    def step(state: list[Value]) -> list[Value]:
        predicate, *carry = state
        inside = _under(scope, predicate)
        again = walk.run(params["cond_jaxpr"], [*cond_consts, *carry], inside)
        after = walk.run(params["body_jaxpr"], [*body_consts, *carry], inside)
        return [_blame(all_of(again), eqn), *after]

    predicate, *carry = _fixed_point([None, *operands[n_cond + n_body :]], step)
    return [both(value, predicate) for value in carry]


def _under(scope: MapScope, predicate: Value) -> MapScope:
    if predicate is None:
        return scope
    control = meet(scope.control, predicate.classes)
    return MapScope(scope.space, control, scope.torn or predicate.torn)


def _blame(predicate: Value, eqn: Any) -> Value:
    """The predicate, with ``eqn`` as the equation that makes values depend on it."""
    if predicate is None:
        return None
    cause = predicate.cause
    return predicate._replace(cause=cause._replace(control=cause.control or eqn))


# ---- branches


def _cond(walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> Sequence[Value]:
    index, rest = _blame(used(operands[0], eqn), eqn), operands[1:]
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


def _linear_solve(
    walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope
) -> Sequence[Value]:
    """Runs the function ``solve``, on its own constants and the right-hand side."""
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    start = lengths.matvec + lengths.vecmat
    consts = operands[start : start + lengths.solve]
    right = operands[start + lengths.solve + lengths.transpose_solve :]
    outputs = walk.run(jaxprs.solve, [*consts, *right], scope)
    return outputs[: len(eqn.outvars)]


def _if_made_of(names: frozenset[str], why: str) -> Rule:
    """A plain function of its operands, if the jaxprs that it holds have only these primitives."""

    def rule(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> Sequence[Value]:
        for jaxpr in _compat.inner_jaxprs(eqn.params):
            for inner in _compat.equations(jaxpr):
                if inner.primitive.name not in names or not is_jax_primitive(inner.primitive):
                    return opaque(eqn, scope, why)
        return [used(all_of(operands), eqn)] * len(eqn.outvars)

    return rule


_with_function = _if_made_of(PLAIN, "is given a function that does more than compute")
_kernel = _if_made_of(
    PLAIN | IN_KERNEL | WITH_FUNCTION, "is a kernel that does more than compute on its own device"
)


def _nested_map(
    walk: Interpreter, eqn: Any, operands: list[Value], scope: MapScope
) -> Sequence[Value]:
    """A map inside a map: a value outside is all of its parts inside."""
    axes = _compat.map_axes(eqn)
    if axes is None or any(name in scope.space.names for name in axes):
        return opaque(eqn, scope, "is a map of an unknown form")
    if scope.torn:
        return opaque(eqn, scope, "is a map under a predicate that is not equal on its devices")
    outer, inner = scope.space, scope.space.extend(tuple(axes), tuple(axes.values()))
    control = lift(scope.control, outer, inner, ())
    inputs = [
        enter_map(value, spec, outer, inner, Cause(None, eqn, "splits its operand over devices"))
        for value, spec in zip(operands, eqn.params["in_specs"], strict=True)
    ]
    outputs = walk.run(eqn.params["jaxpr"], inputs, MapScope(inner, control))
    return [
        leave_map(value, spec, outer, inner)
        for value, spec in zip(outputs, eqn.params["out_specs"], strict=True)
    ]


def enter_map(value: Value, spec: Any, outer: Space, inner: Space, cause: Cause) -> Value:
    """A value inside a map that splits it over devices by ``spec``."""
    if value is not None and value.torn:
        return value._replace(classes=tuple(range(inner.size)))
    classes = lift(value and value.classes, outer, inner, _split_over(spec, outer, inner))
    return varying(classes, cause if value is None else value.cause)


def leave_map(value: Value, spec: Any, outer: Space, inner: Space) -> Value:
    """A value outside the map that joins it by ``spec``.

    It is torn if devices that hold copies by ``spec`` may hold different values.
    """
    if value is None:
        return None
    copies = coordinates(inner, (*outer.names, *_split_over(spec, outer, inner)))
    classes = project(value.classes, outer, inner)
    if value.torn or meet(copies, value.classes) != copies:
        return Varying(classes or (0,) * outer.size, value.cause, torn=True)
    return varying(classes, value.cause)


def _split_over(spec: Any, outer: Space, inner: Space) -> tuple[Any, ...]:
    """The axes of a map over which ``spec`` splits a value."""
    flat = [name for entry in spec for name in (entry if isinstance(entry, tuple) else (entry,))]
    return tuple(name for name in flat if name in inner.names and name not in outer.names)


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
    "call_hi_primitive": _high_level,
    "custom_linear_solve": _linear_solve,
    "pallas_call": _kernel,
    "shard_map": _nested_map,
}
