"""The walk over a jaxpr: from what is known of its inputs to what is known of its outputs.

Nearly all values are equal everywhere and nearly all primitives are plain functions of their
operands, so the walk keeps a table of the other values only, and a plain equation whose operands
are not in it costs a few dictionary look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from shardlift._replication.knowledge import (
    Cause,
    Scope,
    Value,
    Varying,
    all_of,
    apart,
    rebased,
    used,
)
from shardlift._replication.primitives import OPAQUE, PLAIN, ours

Rule = Callable[["Interpreter", Any, list[Value], Scope], Sequence[Value]]


class Interpreter:
    """Interprets jaxprs, each once for the same knowledge of its inputs."""

    def __init__(self, rules: dict[str, Rule], pure: Iterable[str] = ()) -> None:
        """``pure`` names further primitives that depend on nothing but their operands."""
        self._rules = rules
        self._pure = frozenset(pure)
        self._kinds: dict[Any, Rule | None] = {}
        self._seen: dict[Any, tuple[Any, list[Value]]] = {}
        self._made: dict[int, tuple[Any, Any]] = {}

    def run(self, jaxpr: Any, inputs: Sequence[Value], scope: Scope) -> list[Value]:
        """What is known of the outputs, with causes in terms of the inputs' own causes."""
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        key = (id(jaxpr), tuple([value and value.classes for value in inputs]), scope)
        found = self._seen.get(key)
        if found is None:
            local = [value and Varying(value.classes, Cause(k)) for k, value in enumerate(inputs)]
            # The jaxpr is kept: its id must not become another one's.
            found = self._seen[key] = (jaxpr, self._walk(jaxpr, local, scope))
        return [rebased(value, inputs) for value in found[1]]

    def once(self, eqn: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` made of this equation the first time."""
        if id(eqn) not in self._made:
            self._made[id(eqn)] = (eqn, make())
        return self._made[id(eqn)][1]

    def _walk(self, jaxpr: Any, inputs: Sequence[Value], scope: Scope) -> list[Value]:
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
            found: list[Varying] = [known[id(var)] for var in eqn.invars if id(var) in known]
            if found:
                value = used(found[0] if len(found) == 1 else all_of(found), eqn)
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
        elif not ours(primitive):
            rule = _unknown
        else:
            rule = self._rules.get(name, None if name in PLAIN else _unknown)
        self._kinds[primitive] = rule
        return rule


def opaque(eqn: Any, scope: Scope, why: str) -> list[Value]:
    """Every output of ``eqn`` may be another one on every device."""
    return [apart(scope, Cause(None, eqn, why))] * len(eqn.outvars)


def _unknown(_: Interpreter, eqn: Any, __: list[Value], scope: Scope) -> list[Value]:
    why = OPAQUE.get(eqn.primitive.name, "is a primitive of which nothing is known")
    return opaque(eqn, scope, why)
