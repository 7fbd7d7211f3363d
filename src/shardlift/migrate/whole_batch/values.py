"""What the statements of a step compute with: kinds, trees of them, and functions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from shardlift.migrate.device_axis.cells import Key, Place
from shardlift.migrate.whole_batch.kinds import Kind
from shardlift.source.file import File
from shardlift.source.scopes import Function


class RefusalError(Exception):
    """A step is not rewritten, because of what stands at a place."""

    def __init__(self, at: Place, why: str) -> None:
        super().__init__(f"{why}, at {at}")


@dataclass(frozen=True)
class Tree:
    """An array, or a tree of which every leaf has this kind."""

    kind: Kind


@dataclass(frozen=True)
class Parts:
    """A tuple, list, dict or record whose elements have kinds of their own."""

    items: Mapping[Key, Value]
    rest: Value | None = None  # of every other element


@dataclass(frozen=True)
class Shape:
    """The shape of rows of the batch: its first number is `COUNT`."""


@dataclass
class Frame:
    """The names of a function that is being followed; of the function around it, its parent."""

    names: dict[str, Value] = field(default_factory=dict)
    parent: Frame | None = None
    returned: list[Value] = field(default_factory=list)

    def find(self, name: str) -> Value | None:
        """The value of a name in this function or one around it."""
        if name in self.names:
            return self.names[name]
        return self.parent.find(name) if self.parent is not None else None


@dataclass(frozen=True, eq=False)
class Code:
    """A function of the program, with the arguments that it is bound to."""

    node: Function = field(repr=False)
    file: File = field(repr=False)
    frame: Frame | None = field(repr=False, default=None)
    args: tuple[Value, ...] = ()
    named: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Native:
    """A function made of others, such as a gradient."""

    call: Callable[[Place, list[Value], dict[str, Value]], Value]


Value = Tree | Parts | Shape | Code | Native
SAME = Tree(Kind.SAME)


def kinds(value: Value) -> set[Kind]:
    """The kinds of all leaves; of a function, none."""
    if isinstance(value, Tree):
        return {value.kind}
    if isinstance(value, Shape):
        return {Kind.COUNT}
    if isinstance(value, Parts):
        inner = [*value.items.values(), *([value.rest] if value.rest is not None else [])]
        return {kind for one in inner for kind in kinds(one)}
    return set()


def is_same(values: Iterable[Value]) -> bool:
    """Whether all leaves of all values are the same on all devices."""
    return all(not isinstance(v, (Code, Native)) and kinds(v) <= {Kind.SAME} for v in values)


def part(value: Value, key: Key) -> Value | None:
    """An element; None if it is not known."""
    if isinstance(value, Parts):
        found = value.items.get(key, value.rest)
        return found if found is not None or value.items or value.rest else SAME
    return value if isinstance(value, Tree) else None


def join(one: Value, other: Value) -> Value | None:
    """The value of a name that is one of two; None if they are of different kinds."""
    if one is other or one == other:
        return one
    if isinstance(one, (Tree, Parts)) and isinstance(other, (Tree, Parts)):
        found = kinds(one) | kinds(other)
        if len(found) <= 1:
            return Tree(next(iter(found), Kind.SAME))
        if isinstance(one, Parts) and isinstance(other, Parts) and one.rest == other.rest:
            return _join_parts(one, other)
    return None


def _join_parts(one: Parts, other: Parts) -> Value | None:
    if one.items.keys() != other.items.keys():
        return None
    both = {key: join(value, other.items[key]) for key, value in one.items.items()}
    known = {key: value for key, value in both.items() if value is not None}
    return Parts(known, one.rest) if len(known) == len(both) else None


def is_plain_index(node: ast.expr) -> bool:
    """Whether an index keeps all rows: `:`, or one of several axes of which the first is `:`."""
    first = node.elts[0] if isinstance(node, ast.Tuple) and node.elts else node
    if isinstance(first, ast.Slice):
        return first.lower is None and first.upper is None and first.step is None
    return isinstance(first, ast.Constant) and first.value is ...
