"""What the interpreter knows of a value that is not equal everywhere, and why it is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from shardlift._replication.partition import Classes, Space, meet


class Cause(NamedTuple):
    """Where the difference between devices comes from.

    Either an input of the jaxpr (by its number) and the first equation that used it, or an
    equation that makes a difference by itself, with the reason.
    """

    input: int | None
    eqn: Any = None
    why: str = ""
    control: Any = None  # a while or cond through whose predicate it came


class Varying(NamedTuple):
    """A value that is equal only within the classes of a partition."""

    classes: Classes
    cause: Cause


Value = Varying | None  # None: equal everywhere


class Scope(NamedTuple):
    """Where an equation is: in which maps, and under which predicates."""

    space: Space
    control: Classes | None = None  # which devices surely take the same way to here


def varying(classes: Classes | None, cause: Cause) -> Value:
    """A value with these classes."""
    return None if classes is None else Varying(classes, cause)


def apart(scope: Scope, cause: Cause) -> Value:
    """A value that may be another one on every device."""
    size = scope.space.size
    return Varying(tuple(range(size)), cause) if size > 1 else None


def both(one: Value, other: Value) -> Value:
    """What is known of a function of two values; the first one's cause stands."""
    if other is None or one is other:
        return one
    if one is None:
        return other
    classes = meet(one.classes, other.classes)
    return one if classes == one.classes else varying(classes, one.cause)


def all_of(values: Iterable[Value]) -> Value:
    """What is known of a function of all of them."""
    found: Value = None
    for value in values:
        if value is not None:
            found = both(found, value)
    return found


def used(value: Value, eqn: Any) -> Value:
    """The value after an equation made something of it: the first to do so is remembered."""
    if value is None or value.cause.eqn is not None or eqn.primitive.name in VIEWS:
        return value
    return Varying(value.classes, value.cause._replace(eqn=eqn))


# A map takes the device axis off its arguments: that is not a use of them.
VIEWS = frozenset({"squeeze"})


def rebased(value: Value, inputs: Sequence[Value]) -> Value:
    """A value from inside a jaxpr as its caller sees it: inputs are the caller's values."""
    if value is None:
        return None
    cause = value.cause
    if cause.input is not None:
        given = inputs[cause.input]
        assert given is not None, "an input that is equal everywhere causes nothing"
        eqn = cause.eqn if given.cause.eqn is None else given.cause.eqn
        cause = given.cause._replace(eqn=eqn, control=given.cause.control or cause.control)
    return Varying(value.classes, cause)
