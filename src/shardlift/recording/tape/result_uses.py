"""What the rest of a program makes of the results of collectives.

``pmean(x)``, ``psum(x) / n`` and ``psum(x / n)`` are the same for everything that follows, and a
``psum`` in the place of a ``pmean`` is not, although only the result of a psum is recorded for all
of them. So each result has its uses: the operations that it reaches, and by which number it was
multiplied on the way. Two results are equal if the same operations get the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shardlift import _compat
from shardlift.capture.schema import DEAD_USE, RESULT_USE, ResultUse

# What changes the shape or the type of an array, but no number in it.
_SAME = frozenset({
    "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "transpose", "copy", "copy_p",
    "pvary", "pcast", "convert_element_type", "sharding_constraint",
})  # fmt: skip
_SUMS = frozenset({"add", "add_any", "sub"})
_KINDS = {
    "integer_pow": "power", "square": "power", "pow": "power", "gt": "compare", "lt": "compare",
    "ge": "compare", "le": "compare", "psum_invariant": "psum",
    "all_gather_invariant": "all_gather",
}  # fmt: skip
# Would print once more: they are left out if nothing depends on them.
CALLBACKS = ("debug_callback", "debug_print", "io_callback")


class Multiple(NamedTuple):
    """A result of a collective, multiplied by a number."""

    result: int
    factor: float = 1.0
    computed: Any = None  # a further factor, which the program computes
    new: bool = True  # nothing was done with the result

    def times(self, factor: Any) -> Multiple:
        """Multiplied by one more number, which may be one that the program computes."""
        if isinstance(factor, float):
            return self._replace(factor=self.factor * factor, new=False)
        computed = factor if self.computed is None else self.computed * factor
        return self._replace(computed=computed, new=False)


class ResultUses:
    """The uses of the results of one jaxpr and of the functions that it calls, not of loops in it.

    Arrays are known by their identity, and so in every function that they are given to.
    """

    def __init__(self) -> None:
        self._arrays: list[Any] = []  # keeps their identities
        self._multiples: dict[int, Multiple] = {}
        self._scalars: dict[int, Any] = {}  # what arrays are copies of
        self._means: dict[int, float] = {}  # the results of a pmean, and its factor
        self._uses: dict[int, list[tuple[str, Multiple]]] = {}

    def start(self, result: int, array: Any) -> None:
        """An array is the result of a collective."""
        self._uses[result] = []
        self._track(array, Multiple(result))

    def _track(self, array: Any, multiple: Multiple) -> None:
        self._arrays.append(array)
        self._multiples[id(array)] = multiple

    def any_of(self, arrays: Sequence[Any]) -> bool:
        """Whether one of the arrays is a multiple of a result."""
        return any(id(array) in self._multiples for array in arrays)

    def give(self, arrays: Sequence[Any], kind: str) -> None:
        """Arrays are given to something that is not followed."""
        for array in arrays:
            if id(array) in self._multiples:
                self._add(kind, self._multiples[id(array)])

    def _add(self, kind: str, multiple: Multiple) -> None:
        uses = self._uses[multiple.result]
        if multiple.computed is not None or (kind, multiple) not in uses:
            uses.append((kind, multiple._replace(new=False)))

    def follow(
        self, eqn: Any, operands: Sequence[Any], outputs: Sequence[Any], alive: bool
    ) -> None:
        """An equation was run; ``alive``: an output of the program depends on it."""
        kind = eqn.primitive.name
        if not self.any_of(operands):
            if kind in _SAME and (scalar := self._scalar(operands[0])) is not None:
                self._arrays += outputs
                self._scalars[id(outputs[0])] = scalar
        elif not alive and kind != "div":
            self.give(operands, DEAD_USE)
        elif kind in _SAME and jnp.issubdtype(outputs[0].dtype, jnp.inexact):
            self._track(outputs[0], self._multiples[id(operands[0])])
        elif kind == "optimization_barrier":
            for array, output in zip(operands, outputs, strict=True):
                if id(array) in self._multiples:
                    self._track(output, self._multiples[id(array)])
        elif kind == "neg":
            self._track(outputs[0], self._multiples[id(operands[0])].times(-1.0))
        elif kind in _SUMS:
            self.give(operands[:1], "add")
            if id(operands[1]) in self._multiples:
                multiple = self._multiples[id(operands[1])]
                self._add("add", multiple.times(-1.0) if kind == "sub" else multiple)
        elif kind in ("mul", "div"):
            self._scale(eqn, operands, outputs[0], alive)
        else:
            self.give(operands, _KINDS.get(kind, kind))

    def _scale(self, eqn: Any, operands: Sequence[Any], output: Any, alive: bool) -> None:
        kind = eqn.primitive.name
        first, second = operands
        if kind == "mul" and first is second:
            self.give([first], "power")
            return
        pairs = [(first, second)] if kind == "div" else [(first, second), (second, first)]
        for array, by in pairs:
            scalar = None if id(by) in self._multiples else self._scalar(by)
            is_zero = isinstance(scalar, float) and not scalar
            if id(array) in self._multiples and scalar is not None and not is_zero:
                multiple = self._multiples[id(array)]
                factor = 1 / scalar if kind == "div" else scalar
                if isinstance(factor, float) and multiple.new and _compat.made_by(eqn, "pmean"):
                    self._means[multiple.result] = factor
                self._track(output, multiple.times(factor))
                self.give([by], kind if alive else DEAD_USE)
                return
        self.give(operands, kind if alive else DEAD_USE)

    def _scalar(self, array: Any) -> Any:
        """The number that an array consists of: a float, or computed by the program; or None."""
        if id(array) in self._scalars:
            return self._scalars[id(array)]
        if np.size(array) != 1 or not _is_real(array):
            return None
        if isinstance(array, jax.core.Tracer):
            return jnp.reshape(array, ()).astype(jnp.float32)
        return float(np.asarray(array).reshape(()))

    def finish(self) -> list[tuple[int, tuple[ResultUse, ...], Any]]:
        """Each result with its uses, and an array of the factors that the program computes."""
        found = []
        for result, listed in self._uses.items():
            uses = [(RESULT_USE, Multiple(result, self._means.get(result, 1.0))), *listed]
            computed = [multiple.computed for _, multiple in uses]
            factors = None
            if any(factor is not None for factor in computed):
                factors = jnp.stack([jnp.float32(1) if c is None else c for c in computed])
            named = tuple(ResultUse(kind, abs(o.factor), o.factor < 0) for kind, o in uses)
            found.append((result, named, factors))
        return found


def _is_real(array: Any) -> bool:
    dtype = getattr(array, "dtype", None) or np.asarray(array).dtype
    return bool(
        jnp.issubdtype(dtype, jnp.floating)
        or jnp.issubdtype(dtype, jnp.integer)
        or dtype == np.bool_
    )


def living_equations(jaxpr: Any) -> set[int]:
    """The identities of the equations of a jaxpr that its outputs depend on."""
    alive: set[int] = set()
    needed = {var for var in jaxpr.outvars if not hasattr(var, "val")}
    for eqn in reversed(jaxpr.eqns):
        if any(var in needed for var in eqn.outvars) or _acts(eqn):
            alive.add(id(eqn))
            needed |= {var for var in eqn.invars if not hasattr(var, "val")}
    return alive


def is_silent(eqn: Any) -> bool:
    """Does an equation only call back to the host? It would do it once more, and is left out."""
    return eqn.primitive.name in CALLBACKS and not eqn.outvars


def _acts(eqn: Any) -> bool:
    """Whether an equation does something besides computing its outputs, printing apart."""
    if is_silent(eqn):
        return False
    return any("debug" not in str(effect).lower() for effect in getattr(eqn, "effects", ()))
