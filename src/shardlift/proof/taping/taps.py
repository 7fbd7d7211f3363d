"""What the collectives of a call exchange: their operands and results, a row a device.

The function is traced, and its jaxpr run once more on the same inputs by an interpreter that keeps
what goes into each collective and what comes out. An optimiser that does not care for the scale
of a gradient hides a wrong one from the outputs; here it shows. Loops of `scan` are followed, turn
by turn; what a `while` or `cond` exchanges is not seen, and that is said.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import PartitionSpec

from shardlift import _compat
from shardlift.facts.schema import Form
from shardlift.mapping.explain import COLLECTIVES
from shardlift.proof.control import CALLS, inner_jaxpr
from shardlift.proof.taping.hosts import Held, hold
from shardlift.proof.taping.ways import Apart

EXCHANGES = frozenset(COLLECTIVES) - {"axis_index"}
SILENT = {"debug_callback", "debug_print"}  # would print once more
_BRANCHES = ("while", "cond")


def look(mapped: Any, apart: Apart) -> tuple[list[Held], list[str]]:
    """Operands and results of the collectives of one call, and what was not seen."""

    def program(leaves: list[Any]) -> Any:
        args, kwargs = apart.rebuilt(leaves)
        return mapped(*args, **kwargs)

    traced = jax.make_jaxpr(program)(apart.leaves)
    if not has_collectives(traced.jaxpr):
        return [], []
    if any("callback" in str(effect).lower() for effect in loud_effects(traced.jaxpr)):
        return [], ["collectives: the function calls back to the host, and is not run once more"]
    walk = Walk()

    def run(consts: list[Any], leaves: list[Any]) -> list[Any]:
        walk.about.clear()
        return walk.inside(traced.jaxpr, consts, leaves)[1]

    arrays = jax.jit(run)(traced.consts, jax.tree.leaves(apart.leaves))
    held = [hold(path, array, 0) for (path, _), array in zip(walk.about, arrays, strict=True)]
    described = [
        one._replace(form=_described(one.form, about))
        for one, (_, about) in zip(held, walk.about, strict=True)
    ]
    return described, sorted(walk.unseen)


def _described(form: Form, about: str) -> Form:
    return Form(form.path, form.dtype, form.shape, form.axis, form.agree, about)


def subjaxprs(eqn: Any) -> list[Any]:
    """The jaxprs inside of an equation."""
    found = []
    for param in eqn.params.values():
        for one in param if isinstance(param, (tuple, list)) else [param]:
            inner = getattr(one, "jaxpr", one)
            if hasattr(inner, "eqns") and hasattr(inner, "invars"):
                found.append(inner)
    return found


def has_collectives(jaxpr: Any) -> bool:
    """Is there a collective anywhere inside?"""
    return any(
        eqn.primitive.name in EXCHANGES or any(map(has_collectives, subjaxprs(eqn)))
        for eqn in jaxpr.eqns
    )


def loud_effects(jaxpr: Any) -> list[Any]:
    """Primitives that call back to the host, but for those that are left out."""
    found = []
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if "callback" in name and name not in (*SILENT, "pure_callback"):
            found.append(name)
        for inner in subjaxprs(eqn):
            found += loud_effects(inner)
    return found


class Walk:
    """Runs jaxprs, keeping what is exchanged. ``about``: path and line of each array kept."""

    def __init__(self) -> None:
        self.about: list[tuple[str, str]] = []
        self.unseen: set[str] = set()

    def inside(
        self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], around: str = ""
    ) -> tuple[list[Any], list[Any]]:
        """Outputs of the jaxpr, and the arrays kept."""
        names = dict(zip(jaxpr.constvars, consts, strict=False))
        names.update(zip(jaxpr.invars, args, strict=True))
        kept: list[Any] = []
        for eqn in jaxpr.eqns:
            operands = [names[v] if not hasattr(v, "val") else v.val for v in eqn.invars]
            outputs, new = self._run(eqn, operands, around)
            kept += new
            names.update(zip(eqn.outvars, outputs, strict=True))
        return [names[v] if not hasattr(v, "val") else v.val for v in jaxpr.outvars], kept

    def _run(self, eqn: Any, operands: list[Any], around: str) -> tuple[list[Any], list[Any]]:
        kind = eqn.primitive.name
        around = f"{around}/{_compat.transforms_of(eqn)}"
        if kind in EXCHANGES:
            outputs = _compat.run_equation(eqn, operands)
            return outputs, self._keep(eqn, operands, outputs, around)
        if kind in SILENT and not eqn.outvars:
            return [], []
        if not any(map(has_collectives, subjaxprs(eqn))):
            return _compat.run_equation(eqn, operands), []
        if kind == "shard_map":
            return self._map(eqn, operands, around)
        if kind == "scan" and _compat.scan_parts(eqn) is not None:
            return self._scan(eqn, operands, around)
        inner = inner_jaxpr(eqn) if kind in (*CALLS, "checkpoint", "remat") else None
        if inner is None:
            where = "a branch or a loop" if kind in _BRANCHES else kind
            self.unseen.add(f"collectives inside of {where}")
            return _compat.run_equation(eqn, operands), []
        return self.inside(inner, _consts(eqn), operands, around)

    def _keep(self, eqn: Any, operands: list[Any], outputs: list[Any], around: str) -> list[Any]:
        kind = eqn.primitive.name.removesuffix("_invariant")
        line = _compat.source_line(eqn)
        text = linecache.getline(line[0], line[1]).strip() if line else ""
        kind += " (backward pass)" if "transpose(" in around else ""
        alike = [
            path for path, about in self.about if about == text and path.startswith(f"{kind} #")
        ]
        first = 1 + sum(path.endswith("result") for path in alike)  # which on this line
        kept = []
        for which, arrays in (("operand", operands), ("result", outputs)):
            for k, array in enumerate(arrays):
                self.about.append((f"{kind} #{first + k}, {which}", text))
                kept.append(array)
        return kept

    def _map(self, eqn: Any, operands: list[Any], around: str) -> tuple[list[Any], list[Any]]:
        params = eqn.params
        axes = tuple(_compat.map_axes(eqn) or ())

        def body(blocks: list[Any]) -> Any:
            outputs, kept = self.inside(params["jaxpr"], (), blocks, around)
            return outputs, [jax.lax.expand_dims(array, [0]) for array in kept]

        mapped = jax.shard_map(
            body,
            mesh=params["mesh"],
            in_specs=(list(params["in_specs"]),),
            out_specs=(list(params["out_specs"]), PartitionSpec(axes)),
            axis_names=set(axes),
            check_vma=params["check_vma"],
        )
        outputs, kept = mapped(operands)
        return list(outputs), list(kept)

    def _scan(self, eqn: Any, operands: list[Any], around: str) -> tuple[list[Any], list[Any]]:
        closed, params = eqn.params["jaxpr"], eqn.params
        fixed, carried = _compat.scan_parts(eqn) or (0, 0)
        consts, carry, xs = (
            operands[:fixed],
            operands[fixed : fixed + carried],
            operands[fixed + carried :],
        )
        before = len(self.about)

        def turn(carry: list[Any], x: list[Any]) -> Any:
            del self.about[before:]  # traced more than once
            outputs, kept = self.inside(closed.jaxpr, closed.consts, [*consts, *carry, *x], around)
            return outputs[:carried], (outputs[carried:], kept)

        carry, (ys, kept) = jax.lax.scan(
            turn, carry, xs, length=params["length"], reverse=params["reverse"]
        )
        return [*carry, *ys], list(kept)


def _consts(eqn: Any) -> Sequence[Any]:
    """The constants of the jaxpr that a call runs."""
    for name in ("jaxpr", "call_jaxpr", "call", "fwd_jaxpr"):
        if name in eqn.params:
            return list(getattr(eqn.params[name], "consts", ()))
    return ()
