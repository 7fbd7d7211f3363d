"""A program in a job of many processes, called with the rows of this process.

The first call converts every argument to a global array, and every output back. Later calls of
the same kind take a shortcut: a compiled program only touches the buffers of this process, so the
buffers of the caller's own arrays can be passed directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import NamedSharding

from shardlift import _compat
from shardlift.arrays.resharding import is_key
from shardlift.mapping.axes import shape_of
from shardlift.mapping.pmap_options import PmapOptions
from shardlift.mapping.processes.bridge import MEMORY, Bridge

MAX_SHORTCUTS = 256  # more trees or shapes than this, and a program forgets its shortcuts


class LocalProgram:
    """A program over all processes, called with the rows of this one."""

    def __init__(self, program: Any, bridge: Bridge, options: PmapOptions) -> None:
        self._program, self._bridge, self._options = program, bridge, options
        # By tree, static arguments and shapes; None: there is none.
        self._shortcuts: dict[Any, Shortcut | None] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Take and return the rows of this process."""
        dynamic = self._options.dynamic(args)
        leaves, tree = jax.tree.flatten((dynamic, kwargs))
        static = tuple(args[k] for k in self._options.static)
        shapes = tuple((shape_of(x), getattr(x, "dtype", type(x))) for x in leaves)
        signature = (tree, static, shapes)
        known = self._shortcuts.get(signature)
        if known is not None and (placed := known.place(leaves)) is not None:
            return known.run(placed)
        inputs = self._bridge.globals_of(dynamic, kwargs)
        out = self._program(*self._options.with_static(args, inputs[0]), **inputs[1])
        views = jax.tree.map(self._bridge.to_local, out)
        if signature not in self._shortcuts:
            self._learn(signature, args, inputs, views)
        return views

    def _learn(self, signature: Any, args: Any, inputs: Any, views: Any) -> None:
        """Find a shortcut for the next call of this kind."""
        if len(self._shortcuts) >= MAX_SHORTCUTS:
            self._shortcuts.clear()

        def compile_program() -> Any:
            abstract_args, abstract_kwargs = jax.tree.map(_abstract, inputs)
            whole = self._options.with_static(args, abstract_args)
            return self._program.lower(*whole, **abstract_kwargs).compile()

        self._shortcuts[signature] = find_shortcut(
            self._bridge, jax.tree.leaves(inputs), views, compile_program
        )


def _abstract(x: jax.Array) -> jax.ShapeDtypeStruct:
    # By its type: the array itself may have been donated to the call.
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding, weak_type=x.weak_type)


def find_shortcut(
    bridge: Bridge, inputs: list[jax.Array], views: Any, compile_program: Callable[[], Any]
) -> Shortcut | None:
    """A shortcut that avoids converting ``inputs``, and the outputs to ``views``, if there is one.

    Arrays whose buffers are not simply rewrapped need the conversions.
    """
    plain = all(isinstance(x.sharding, NamedSharding) and not is_key(x) for x in inputs)
    rewrapped = all(hasattr(view, MEMORY) for view in jax.tree.leaves(views))
    if _compat.tracing() or not plain or not rewrapped:
        return None
    run = _compat.runner(compile_program(), len(inputs))
    return None if run is None else Shortcut(run, bridge, inputs, views)


class Shortcut:
    """Runs one compiled program on the arrays of this process."""

    def __init__(
        self, run: _compat.Runner, bridge: Bridge, inputs: list[jax.Array], views: Any
    ) -> None:
        self._run = run
        leaves, self._tree = jax.tree.flatten(views)
        self._view_types = [view.aval for view in leaves]
        self._view_shardings = [view.sharding for view in leaves]
        self._context = _compat.context()
        self._places = [bridge.local_sharding(x) for x in inputs]
        self._wanted = [
            _compat.view_type(x, bridge.local_shape(x.shape, place.spec))
            for x, place in zip(inputs, self._places, strict=True)
        ]
        # The types and shardings of the last inputs, compared by identity: the outputs of a program
        # have the same objects at every call.
        self._types: list[Any] = [self] * len(inputs)
        self._shardings: list[Any] = [self] * len(inputs)

    def place(self, leaves: list[Any]) -> list[Any] | None:
        """The arguments, placed as the program needs them; None if it cannot take them."""
        if _compat.tracing() or _compat.context() != self._context:
            return None
        placed: list[Any] = []
        for leaf, kind, sharding in zip(leaves, self._types, self._shardings, strict=True):
            if getattr(leaf, "aval", None) is not kind or leaf.sharding is not sharding:
                k = len(placed)
                if not _has_type(leaf, self._wanted[k]):
                    return None
                leaf = jax.device_put(leaf, self._places[k])
                self._types[k], self._shardings[k] = leaf.aval, leaf.sharding
            placed.append(leaf)
        return placed

    def run(self, placed: list[Any]) -> Any:
        """The outputs for placed arguments."""
        # The views cannot be made at once, by other handlers of the program's outputs: the runtime
        # would go on to take them for arrays of all processes, and refuse to read or move them
        # (2026-11: 0.10.2, 0.12.0).
        views = map(_compat.rewrap_as, self._run(placed), self._view_types, self._view_shardings)
        return jax.tree.unflatten(self._tree, views)


def _has_type(leaf: Any, wanted: Any) -> bool:
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return False
    kind = jax.typeof(leaf)
    same = kind.shape == wanted.shape and kind.dtype == wanted.dtype
    return same and kind.weak_type == wanted.weak_type
