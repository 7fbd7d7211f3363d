"""Values that are not equal on all devices, and why they are not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from shardlift._replication.partition import Classes, Space, meet


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


def same_devices(first: Value, second: Value) -> bool:
    """Do two values differ between the same devices, for whatever reasons?"""
    if first is None or second is None:
        return first is second
    return (first.classes, first.torn) == (second.classes, second.torn)


def all_of(values: Iterable[Value]) -> Value:
    """The result of a function of all these values."""
    result: Value = None
    for value in values:
        result = both(result, value)
    return result


def used(value: Value, eqn: Any) -> Value:
    """The result of an equation on a value; the first equation that uses it is its cause."""
    if value is None or value.cause.eqn is not None or eqn.primitive.name in VIEWS:
        return value
    return value._replace(cause=value.cause._replace(eqn=eqn))


# A map removes the device axis of its arguments: that does not count as a use.
VIEWS = frozenset({"squeeze"})


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
