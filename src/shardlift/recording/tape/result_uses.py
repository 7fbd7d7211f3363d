"""What the rest of a program makes of the results of collectives.

``pmean(x)``, ``psum(x) / n`` and ``psum(x / n)`` are the same for everything that follows, and a
``psum`` in the place of a ``pmean`` is not, although only the result of a psum is recorded for all
of them. So each result has its uses: the operations that it reaches, and by which number it was
multiplied on the way, without its sign, which outputs show. Two results are equal if the same
operations get the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shardlift import _compat
from shardlift.capture.schema import RESULT_USE, ResultUse

# What changes the shape, the type or the sign of an array, but no number in it.
_SAME = frozenset({
    "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "transpose", "copy", "copy_p", "neg",
    "pvary", "pcast", "convert_element_type", "sharding_constraint",
})  # fmt: skip
_KINDS = {
    "integer_pow": "power", "square": "power", "pow": "power", "gt": "compare", "lt": "compare",
    "ge": "compare", "le": "compare", "psum_invariant": "psum", "add_any": "add", "sub": "add",
    "all_gather_invariant": "all_gather",
}  # fmt: skip


class Multiple(NamedTuple):
    """A result of a collective, multiplied by a number."""

    result: int
    factor: float = 1.0
    computed: Any = None  # a further factor, which the program computes

    def times(self, factor: Any) -> Multiple:
        """Multiplied by one more number, which may be one that the program computes."""
        if isinstance(factor, float):
            return self._replace(factor=self.factor * abs(factor))
        return self._replace(computed=factor if self.computed is None else self.computed * factor)


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
        for multiple in [self._multiples[id(x)] for x in arrays if id(x) in self._multiples]:
            uses = self._uses[multiple.result]
            if multiple.computed is not None or (kind, multiple) not in uses:
                uses.append((kind, multiple))

    def follow(self, eqn: Any, operands: Sequence[Any], outputs: Sequence[Any]) -> None:
        """An equation was run."""
        kind = eqn.primitive.name
        if not self.any_of(operands):
            if kind in _SAME and (scalar := self._scalar(operands[0])) is not None:
                self._arrays += outputs
                self._scalars[id(outputs[0])] = scalar
        elif kind in _SAME and jnp.issubdtype(outputs[0].dtype, jnp.inexact):
            self._track(outputs[0], self._multiples[id(operands[0])])
        elif kind in ("mul", "div"):
            self._scale(eqn, operands, outputs[0])
        else:
            self.give(operands, _KINDS.get(kind, kind))

    def _scale(self, eqn: Any, operands: Sequence[Any], output: Any) -> None:
        kind = eqn.primitive.name
        first, second = operands
        for array, by in [(first, second), (second, first)][: 1 if kind == "div" else 2]:
            scalar = None if id(by) in self._multiples else self._scalar(by)
            is_zero = isinstance(scalar, float) and not scalar
            if id(array) in self._multiples and scalar is not None and not is_zero:
                multiple = self._multiples[id(array)]
                factor = 1 / scalar if kind == "div" else scalar
                if isinstance(factor, float) and _compat.made_by(eqn, "pmean"):
                    self._means[multiple.result] = factor
                self._track(output, multiple.times(factor))
                return
        self.give(operands, "power" if kind == "mul" and first is second else kind)

    def _scalar(self, array: Any) -> Any:
        """The number that an array consists of: a float, or computed by the program; or None."""
        if id(array) in self._scalars:
            return self._scalars[id(array)]
        if np.size(array) != 1 or not _is_real(array):
            return None
        if isinstance(array, jax.core.Tracer):
            return jnp.reshape(array, ()).astype(jnp.float32)
        return float(np.asarray(array).reshape(()))

    def finish(self) -> Iterator[tuple[int, tuple[ResultUse, ...], Any]]:
        """Each result with its uses, and an array of the factors that the program computes."""
        for result, listed in self._uses.items():
            uses = [(RESULT_USE, Multiple(result, self._means.get(result, 1.0))), *listed]
            computed = [multiple.computed for _, multiple in uses]
            factors = None
            if any(factor is not None for factor in computed):
                factors = jnp.stack([jnp.float32(1) if c is None else jnp.abs(c) for c in computed])
            yield result, tuple(ResultUse(kind, use.factor) for kind, use in uses), factors


def _is_real(array: Any) -> bool:
    dtype = getattr(array, "dtype", None) or np.asarray(array).dtype
    return dtype == np.bool_ or any(
        jnp.issubdtype(dtype, kind) for kind in (jnp.floating, jnp.integer)
    )
