"""What a value is made of: one leaf of a tree, or a tuple, list or dict of parts."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

Key = int | str


class Leaf(Enum):
    """One leaf of a tree: what a pmapped function returns as one array."""

    ARRAY = auto()  # an array of JAX, or a float: no operator takes it together with a tuple
    NUMBER = auto()  # any leaf: it may be an int, and `2 * (x, y)` is a tuple


@dataclass(frozen=True)
class Parts:
    """A tuple, a list or a dict, of which each part is known or not."""

    kind: type
    of: Mapping[Key, Structure]


Structure = Leaf | Parts | None  # None where nothing is proven

_REPEATS = (ast.Mult, ast.Add)  # what sequences know of arithmetic
_MERGES = (ast.BitOr, ast.BitAnd, ast.BitXor)  # what dicts and sets do


def part(whole: Structure, key: Key) -> Structure:
    """An element of a tuple, list or dict."""
    return whole.of.get(key) if isinstance(whole, Parts) else None


def tuple_of(*parts: Structure) -> Parts:
    """The structure of a tuple."""
    return Parts(tuple, dict(enumerate(parts)))


def joined(structures: Iterable[Structure]) -> Structure:
    """What is certain of a value that is one of several."""
    found = list(structures)
    if found and all(isinstance(one, Leaf) for one in found):
        return found[0] if len(set(found)) == 1 else Leaf.NUMBER
    parts = [one for one in found if isinstance(one, Parts)]
    kinds = {(one.kind, frozenset(one.of)) for one in parts}
    if len(kinds) != 1 or len(parts) != len(found):
        return None
    first = parts[0]
    return Parts(first.kind, {key: joined(one.of[key] for one in parts) for key in first.of})


def combined(operator: ast.operator, left: Structure, right: Structure) -> Structure:
    """What an operator makes of two values, where it does not raise."""
    if Leaf.ARRAY in (left, right):
        return Leaf.ARRAY
    if isinstance(operator, ast.Mult):
        return Leaf.NUMBER if left is right is Leaf.NUMBER else None
    if isinstance(operator, (*_REPEATS, *_MERGES)):
        if Leaf.NUMBER in (left, right):
            return Leaf.NUMBER
        concatenated = isinstance(operator, ast.Add) and isinstance(left, Parts)
        return _concatenated(left, right) if concatenated else None
    # No tuple, list or dict has `-`, `/`, `//`, `%`, `**`, `@` or shifts.
    return Leaf.ARRAY if isinstance(operator, (ast.Div, ast.MatMult)) else Leaf.NUMBER


def _concatenated(left: Structure, right: Structure) -> Structure:
    if not isinstance(left, Parts) or not isinstance(right, Parts) or left.kind is not right.kind:
        return None
    if left.kind is dict:
        return None
    return Parts(left.kind, dict(enumerate([*left.of.values(), *right.of.values()])))


def can_change(structure: Structure) -> bool:
    """Whether something may be put into a value later: it is a list or dict, or holds one."""
    if not isinstance(structure, Parts):
        return False
    return structure.kind is not tuple or any(map(can_change, structure.of.values()))


def is_all_leaves(structure: Structure) -> bool:
    """Whether every part of a value is known, down to its leaves."""
    if isinstance(structure, Parts):
        return all(map(is_all_leaves, structure.of.values()))
    return structure is not None


def as_arrays(structure: Structure) -> Structure:
    """The same with all leaves traced: what was a number is an array."""
    if isinstance(structure, Parts):
        return Parts(structure.kind, {k: as_arrays(one) for k, one in structure.of.items()})
    return Leaf.ARRAY if structure is Leaf.NUMBER else structure
