"""Interpreter of a jaxpr: which of its outputs vary between devices, given its inputs.

Nearly all values are equal everywhere and nearly all primitives are plain functions of their
operands, so the interpreter keeps a table of the other values only. A plain equation whose operands
are not in the table costs a few dictionary look-ups.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from shardlift._replication.partition import Classes, Space, meet
from shardlift._replication.primitives import OPAQUE, PLAIN, is_jax_primitive

# A map removes the device axis of its arguments: that does not count as a use.
VIEWS = frozenset({"squeeze"})


class Cause(NamedTuple):
    """The cause of a difference between devices.

    Either an input of the jaxpr (by its number) and the first equation that used it, or an
    equation that causes a difference by itself, with the reason.
    """

    input: int | None
    eqn: Any = None
    why: str = ""
    control: Any = None  # the while or cond whose predicate carried it


class Varying(NamedTuple):
    """A value that is equal only within the classes of a partition."""

    classes: Classes
    cause: Cause
    torn: bool = False  # a map inside left it different on devices that should hold copies of it


Value = Varying | None  # None: equal everywhere


class MapScope(NamedTuple):
    """The maps and predicates around an equation."""

    space: Space
    control: Classes | None = None  # devices in one class surely take the same path
    torn: bool = False  # a predicate is torn


def varying(classes: Classes | None, cause: Cause) -> Value:
    """A value with these classes."""
    return None if classes is None else Varying(classes, cause)


def apart(scope: MapScope, cause: Cause) -> Value:
    """A value that may differ on every device."""
    size = scope.space.size
    return Varying(tuple(range(size)), cause) if size > 1 else None


def both(first: Value, second: Value) -> Value:
    """The result of a function of two values; it has the cause of the first."""
    if second is None or first is second:
        return first
    if first is None:
        return second
    classes = meet(first.classes, second.classes) or first.classes
    torn = first.torn or second.torn
    if classes == first.classes and torn == first.torn:
        return first
    return Varying(classes, first.cause, torn)


def devices_apart(value: Value) -> Any:
    """Between which devices a value differs, for whatever reason."""
    return value and (value.classes, value.torn)


def all_of(values: Iterable[Value]) -> Value:
    """The result of a function of all these values."""
    return functools.reduce(both, values, None)


def used(value: Value, eqn: Any) -> Value:
    """The result of an equation on a value; the first equation that uses it is its cause."""
    if value is None or value.cause.eqn is not None or eqn.primitive.name in VIEWS:
        return value
    return value._replace(cause=value.cause._replace(eqn=eqn))


def rebase(value: Value, inputs: Sequence[Value]) -> Value:
    """A value inside a jaxpr as its caller sees it; ``inputs`` are the caller's values."""
    if value is None:
        return None
    cause = value.cause
    if cause.input is not None:
        outer = inputs[cause.input]
        assert outer is not None, "an input that is equal everywhere causes nothing"
        eqn = cause.eqn if outer.cause.eqn is None else outer.cause.eqn
        cause = outer.cause._replace(eqn=eqn, control=outer.cause.control or cause.control)
    return value._replace(cause=cause)


# ---- the walk

Rule = Callable[["Interpreter", Any, list[Value], MapScope], Sequence[Value]]


class Interpreter:
    """Interprets jaxprs, each once for the same varying inputs."""

    def __init__(self, rules: dict[str, Rule], pure: Iterable[str] = ()) -> None:
        """``pure`` names further primitives that depend only on their operands."""
        self._rules = rules
        self._pure = frozenset(pure)
        self._kinds: dict[Any, Rule | None] = {}
        self._seen: dict[Any, tuple[Any, list[Value]]] = {}
        self.expanded: dict[int, tuple[Any, Any]] = {}  # equations of high-level primitives

    def run(self, jaxpr: Any, inputs: Sequence[Value], scope: MapScope) -> list[Value]:
        """The outputs' values, with causes in terms of the inputs' own causes."""
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        key = (id(jaxpr), *map(devices_apart, inputs), scope)
        seen = self._seen.get(key)
        if seen is None:
            local = [value and value._replace(cause=Cause(k)) for k, value in enumerate(inputs)]
            # The jaxpr is kept alive: its id must not be reused.
            seen = self._seen[key] = (jaxpr, self._walk(jaxpr, local, scope))
        return [rebase(value, inputs) for value in seen[1]]

    def _walk(self, jaxpr: Any, inputs: Sequence[Value], scope: MapScope) -> list[Value]:
        known: dict[int, Varying] = {
            id(var): value
            for var, value in zip(jaxpr.invars, inputs, strict=True)
            if value is not None
        }
        kinds = self._kinds
        for eqn in jaxpr.eqns:
            primitive = eqn.primitive
            rule = kinds[primitive] if primitive in kinds else self._classify(primitive)
            if rule is not None:
                operands: list[Value] = [known.get(id(var)) for var in eqn.invars]
                for var, value in zip(eqn.outvars, rule(self, eqn, operands, scope), strict=True):
                    if value is not None:
                        known[id(var)] = value
                continue
            varied: list[Varying] = [known[id(var)] for var in eqn.invars if id(var) in known]
            if varied:
                value = used(varied[0] if len(varied) == 1 else all_of(varied), eqn)
                assert value is not None, "a function of a varying value varies"
                for var in eqn.outvars:
                    known[id(var)] = value
        return [known.get(id(var)) for var in jaxpr.outvars]

    def _classify(self, primitive: Any) -> Rule | None:
        """The rule of a primitive; None for a plain function of its operands."""
        name = primitive.name
        rule: Rule | None
        if name in self._pure:
            rule = None
        elif not is_jax_primitive(primitive):
            rule = _unknown
        else:
            rule = self._rules.get(name, None if name in PLAIN else _unknown)
        self._kinds[primitive] = rule
        return rule


def opaque(eqn: Any, scope: MapScope, why: str) -> list[Value]:
    """Every output of ``eqn`` may differ on every device."""
    return [apart(scope, Cause(None, eqn, why))] * len(eqn.outvars)


def _unknown(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> list[Value]:
    why = OPAQUE.get(eqn.primitive.name, "is an unknown primitive")
    torn = next((value for value in operands if value is not None and value.torn), None)
    return [both(torn, value) for value in opaque(eqn, scope, why)]
