"""Functions of ``jax.jit`` that call ``jax.shard_map``: sites that are no pmaps any more.

So that a program can be recorded before and after its migration. Whether a jitted function is
one shows when it is first traced; all others are unchanged.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift import _compat
from shardlift.recording.mapped_calls import ArgumentLeaf, JitCall, JitFunction, Rows

_PARTS = ("lower", "trace", "eval_shape", "clear_cache")  # of ``jax.stages.Wrapped``


class ShardMapped(NamedTuple):
    """A jitted function that calls shard_map, as it was first traced."""

    jitted: Any
    function: JitFunction
    donated: frozenset[int | str]  # positions, names
    mesh: Mesh
    specs: tuple[PartitionSpec | None, ...]  # of each argument; None: shard_map does not see it


class UndecidedJit:
    """A jitted function that finds out on its first call whether it calls shard_map.

    If it does, what ``observe`` returns takes its place.
    """

    def __init__(
        self, jitted: Any, function: JitFunction, options: dict[str, Any],
        observe: Callable[[ShardMapped], Any],
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, jitted)
        self._jitted, self._function, self._options = jitted, function, options
        self._observe, self._chosen = observe, None
        # Attributes, not only `__getattr__`: Python 3.12 looks for these in an `isinstance` check.
        for name in _PARTS:
            if hasattr(jitted, name):
                setattr(self, name, getattr(jitted, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Decide, and run."""
        if self._chosen is None and not _compat.tracing():
            with contextlib.suppress(Exception):  # the call itself will raise it
                mapped = find_shard_map(self._jitted, self._function, self._options, args, kwargs)
                self._chosen = self._jitted if mapped is None else self._observe(mapped)
        return (self._chosen or self._jitted)(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method, where the jitted function is one."""
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        """``lower``, ``trace`` and the like."""
        if name == "_jitted":  # a copy that has not been filled in yet
            raise AttributeError(name)
        return getattr(self._jitted, name)


def find_shard_map(
    jitted: Any,
    function: JitFunction,
    options: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> ShardMapped | None:
    """The first shard_map in the program of a call; None if there is none."""
    jaxpr = jitted.trace(*args, **kwargs).jaxpr.jaxpr  # which the call itself will find
    every = _compat.equations(jaxpr)
    eqn = next((eqn for eqn in every if eqn.primitive.name == "shard_map"), None)
    if eqn is None or not isinstance(eqn.params["mesh"], Mesh):
        return None
    seen = dict(zip(map(id, eqn.invars), eqn.params["in_specs"], strict=True))
    specs = tuple(seen.get(id(var)) for var in jaxpr.invars)
    donated = frozenset(
        [*_several(options, "donate_argnums"), *_several(options, "donate_argnames")]
    )
    return ShardMapped(jitted, function, donated, eqn.params["mesh"], specs)


def _several(options: dict[str, Any], name: str) -> tuple[Any, ...]:
    given = options.get(name)
    return (given,) if isinstance(given, (int, str)) else tuple(given or ())


class ShardMapCall(JitCall):
    """One call of such a function."""

    def __init__(self, mapped: ShardMapped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(mapped.function, args, kwargs)
        fun, self.mapped, self.mesh = mapped.function.fun, mapped, mapped.mesh
        self.name = getattr(fun, "__name__", type(fun).__name__)
        self.axis_name = self.label = str(self.mesh.axis_names[0])
        self.copies = self.mesh.size

    @cached_property
    def given(self) -> list[ArgumentLeaf]:
        """Every leaf of the arguments."""
        specs, count = self.mapped.specs, len(self.rows)
        specs = specs if len(specs) == count else (None,) * count
        return [
            ArgumentLeaf(
                path, leaf, _axis(spec), spec or PartitionSpec(), self._wanted(spec), donated
            )
            for (path, leaf, _), spec, donated in zip(
                self.rows, specs, self._donated(), strict=True
            )
        ]

    def _wanted(self, spec: PartitionSpec | None) -> NamedSharding | None:
        return None if spec is None else NamedSharding(self.mesh, spec)

    def placed_rows_of(self, out: Any) -> Rows:
        """Path, leaf and mapped axis of every output, by its sharding."""
        return [(path, leaf, _axis(_spec_of(leaf))) for path, leaf, _ in self.rows_of(out)]

    def spec_of_output(self, leaf: Any, axis: int | None) -> PartitionSpec:  # noqa: ARG002
        """How an output is split."""
        return _spec_of(leaf) or PartitionSpec()

    def traced(self, fitted: list[Any] | None) -> Any:  # noqa: ARG002
        """The program that ran."""
        return self.mapped.jitted.trace(*self.args, **self.kwargs)

    def _donated(self) -> list[bool]:
        flags: list[bool] = []
        function, donated = self.mapped.function, self.mapped.donated
        for k, arg in enumerate(self.args):
            if k not in function.static:
                flags += [k in donated] * len(jax.tree.leaves(arg))
        for name, value in sorted(self.kwargs.items()):
            if name not in function.static_names:
                flags += [name in donated] * len(jax.tree.leaves(value))
        return flags


def _spec_of(leaf: Any) -> PartitionSpec | None:
    sharding = getattr(leaf, "sharding", None)
    return sharding.spec if isinstance(sharding, NamedSharding) else None


def _axis(spec: PartitionSpec | None) -> int | None:
    """The first axis that is spread over devices."""
    return next((k for k, name in enumerate(spec or ()) if name is not None), None)
