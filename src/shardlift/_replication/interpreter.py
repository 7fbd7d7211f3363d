"""Interpreter of a jaxpr: along which axes its outputs differ between devices, given its inputs.

Nearly all values are equal everywhere and nearly all primitives are plain functions of their
operands, so the interpreter keeps a table of the other values only. A plain equation whose operands
are not in the table costs a few dictionary look-ups.
"""

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from shardlift._replication.primitives import OPAQUE, PLAIN, is_jax_primitive

# A map removes the device axis of its arguments: that does not count as a use.
VIEWS = frozenset({"squeeze"})

Axes = frozenset[Hashable]
# Stands for the axes of a map inside, which left a value different on devices that should hold
# copies of it. No collective outside of that map can make such a value equal.
TORN = object()


class Cause(NamedTuple):
    """The cause of a difference between devices.

    Either an input of the jaxpr (by its number) and the first equation that used it, or an
    equation that causes a difference by itself, with the reason.
    """

    input: int | None
    eqn: Any = None
    why: str = ""


class Varying(NamedTuple):
    """A value that may differ along some axes, and is equal along all others."""

    axes: Axes
    cause: Cause


Value = Varying | None  # None: equal everywhere


class MapScope(NamedTuple):
    """The maps and predicates around an equation."""

    sizes: tuple[tuple[Hashable, int], ...]  # of the axes that are mapped
    control: Axes = frozenset()  # along which devices may take another path

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The axes that are mapped."""
        return tuple(name for name, _ in self.sizes)

    def wide(self, names: Iterable[Hashable]) -> Axes:
        """Those of some axes that have more than one device."""
        return frozenset(names) & {name for name, size in self.sizes if size > 1}


def varying(axes: Axes, cause: Cause) -> Value:
    """A value that differs along these axes."""
    return Varying(axes, cause) if axes else None


def axes_of(value: Value) -> Axes:
    """The axes along which a value may differ."""
    return frozenset() if value is None else value.axes


def both(first: Value, second: Value) -> Value:
    """The result of a function of two values; it has the cause of the first."""
    if first is None or second is None:
        return second if first is None else first
    return first if second.axes <= first.axes else Varying(first.axes | second.axes, first.cause)


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
    if value is None or value.cause.input is None:
        return value
    cause, outer = value.cause, inputs[value.cause.input]
    assert outer is not None, "an input that is equal everywhere causes nothing"
    eqn = cause.eqn if outer.cause.eqn is None else outer.cause.eqn
    return value._replace(cause=outer.cause._replace(eqn=eqn))


# ---- the walk

Rule = Callable[["Interpreter", Any, list[Value], MapScope], Sequence[Value]]


class Interpreter:
    """Interprets jaxprs, each once for the same varying inputs."""

    def __init__(self, rules: dict[str, Rule]) -> None:
        self._rules = rules
        self._kinds: dict[Any, Rule | None] = {}
        self._seen: dict[Any, tuple[Any, list[Value]]] = {}

    def run(self, jaxpr: Any, inputs: Sequence[Value], scope: MapScope) -> list[Value]:
        """The outputs' values, with causes in terms of the inputs' own causes."""
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        key = (id(jaxpr), *map(axes_of, inputs), scope)
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
        usual = None if primitive.name in PLAIN else _unknown
        rule = self._rules.get(primitive.name, usual) if is_jax_primitive(primitive) else _unknown
        self._kinds[primitive] = rule
        return rule


def opaque(eqn: Any, operands: list[Value], scope: MapScope, why: str) -> list[Value]:
    """Every output of ``eqn`` may differ on every device."""
    axes = scope.wide(scope.names) | (axes_of(all_of(operands)) & {TORN})
    return [varying(axes, Cause(None, eqn, why))] * len(eqn.outvars)


def _unknown(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> list[Value]:
    why = OPAQUE.get(eqn.primitive.name, "is an unknown primitive")
    return opaque(eqn, operands, scope, why)
