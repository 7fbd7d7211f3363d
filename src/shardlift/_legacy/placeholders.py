"""Placeholders for removed names without successor: they can be imported, not used.

A library that JAX has left behind mostly needs such a name for an annotation, to register a rule
for a primitive that no program has any more, or not at all. What kind of thing it was shows in
its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax.extend.core

_REGISTRY = re.compile(
    r"(batchers|collectives|effects|handlers|jvps|likers|makers|mappings|rules|transforms|translations|transposes|types|updaters)$"
)
_REGISTERS = re.compile(
    r"_?(register|def[a-z]*_|defjvp|defvjp|deflinear|defbroadcasting|defvectorized|defnaryop|initialize_cache)"
)


class NotRestoredError(AttributeError):
    """A removed name was used for which there is no stand-in."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is no longer part of JAX, and `shardlift run` has no stand-in for it",
            name=path.rpartition(".")[2],
        )
        self.path = path


def placeholder(path: str) -> Any:
    """Something that can stand in an import, an annotation or a registration.

    >>> placeholder("jax.core.axis_index_p")
    axis_index
    """
    name = path.rpartition(".")[2]
    plain = name.strip("_")
    if plain.endswith("_p"):
        return _primitive(plain[:-2])
    if _REGISTRY.search(plain):
        return Registry()
    if _REGISTERS.match(name):
        return _register
    # A type, for a function or a value too, that nothing is an instance of.
    getitem = classmethod(lambda cls, _: cls)
    members = {"__module__": path.rpartition(".")[0], "__class_getitem__": getitem}
    return _Refusing(name, (), members)


def _primitive(name: str) -> Any:
    """A primitive that no program contains."""
    primitive = jax.extend.core.Primitive(name)
    primitive.multiple_results = True
    return primitive


class Registry(dict[Any, Any]):
    """A table, or a set, that is written and never read."""

    def add(self, key: Any) -> None:
        """As of a set."""
        self[key] = None

    append = add_type = add


def _register(*args: Any, **_: Any) -> Any:
    """Register nothing; as a decorator, return the function."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    return args[0] if len(args) == 1 and callable(args[0]) else decorate


class _Refusing(type):
    """The type of a placeholder: it has no attributes, and makes no instances."""

    def __getattr__(cls, name: str) -> Any:
        raise NotRestoredError(f"{cls.__module__}.{cls.__name__}.{name}")

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise NotRestoredError(f"{cls.__module__}.{cls.__name__}")

    def __repr__(cls) -> str:
        return f"<{cls.__module__}.{cls.__name__}, which JAX no longer has>"
