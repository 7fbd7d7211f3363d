"""Interpreter of a jaxpr: which of its outputs vary between devices, given its inputs.

Nearly all values are equal everywhere and nearly all primitives are plain functions of their
operands, so the interpreter keeps a table of the other values only. A plain equation whose operands
are not in the table costs a few dictionary look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from shardlift._replication.knowledge import (
    Cause,
    MapScope,
    Value,
    Varying,
    all_of,
    apart,
    both,
    rebase,
    used,
)
from shardlift._replication.primitives import OPAQUE, PLAIN, is_jax_primitive

Rule = Callable[["Interpreter", Any, list[Value], MapScope], Sequence[Value]]


class Interpreter:
    """Interprets jaxprs, each once for the same varying inputs."""

    def __init__(self, rules: dict[str, Rule], pure: Iterable[str] = ()) -> None:
        """``pure`` names further primitives that depend only on their operands."""
        self._rules = rules
        self._pure = frozenset(pure)
        self._kinds: dict[Any, Rule | None] = {}
        self._seen: dict[Any, tuple[Any, list[Value]]] = {}
        self._cache: dict[int, tuple[Any, Any]] = {}

    def run(self, jaxpr: Any, inputs: Sequence[Value], scope: MapScope) -> list[Value]:
        """The outputs' values, with causes in terms of the inputs' own causes."""
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        given = [value and (value.classes, value.torn) for value in inputs]
        key = (id(jaxpr), tuple(given), scope)
        seen = self._seen.get(key)
        if seen is None:
            local = [value and value._replace(cause=Cause(k)) for k, value in enumerate(inputs)]
            # The jaxpr is kept alive: its id must not be reused.
            seen = self._seen[key] = (jaxpr, self._walk(jaxpr, local, scope))
        return [rebase(value, inputs) for value in seen[1]]

    def once(self, eqn: Any, make: Callable[[], Any]) -> Any:
        """The result of ``make`` for this equation, called once."""
        if id(eqn) not in self._cache:
            self._cache[id(eqn)] = (eqn, make())
        return self._cache[id(eqn)][1]

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
