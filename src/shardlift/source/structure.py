"""The structure of a value: one leaf of a tree, or a tuple, list or dict of parts."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

Key = int | str


class Leaf(Enum):
    """One leaf of a tree, which a pmapped function returns as one array."""

    ARRAY = auto()  # a JAX array or a float: no operator combines it with a tuple
    NUMBER = auto()  # any leaf, perhaps an int: `2 * (x, y)` is a tuple


@dataclass(frozen=True)
class Parts:
    """A tuple, list or dict. Each part is known or not."""

    kind: type
    of: Mapping[Key, Structure]


Structure = Leaf | Parts | None  # None where nothing is proven

_REPEATS = (ast.Mult, ast.Add)  # the operators of sequences
_MERGES = (ast.BitOr, ast.BitAnd, ast.BitXor)  # the operators of dicts and sets


def part(whole: Structure, key: Key) -> Structure:
    """An element of a tuple, list or dict."""
    return whole.of.get(key) if isinstance(whole, Parts) else None


def tuple_of(*parts: Structure) -> Parts:
    """The structure of a tuple."""
    return Parts(tuple, dict(enumerate(parts)))


def join(structures: Iterable[Structure]) -> Structure:
    """The structure that several possible values have in common."""
    every = list(structures)
    if every and all(isinstance(structure, Leaf) for structure in every):
        return every[0] if len(set(every)) == 1 else Leaf.NUMBER
    wholes = [structure for structure in every if isinstance(structure, Parts)]
    kinds = {(whole.kind, frozenset(whole.of)) for whole in wholes}
    if len(kinds) != 1 or len(wholes) != len(every):
        return None
    first = wholes[0]
    return Parts(first.kind, {key: join(w.of[key] for w in wholes) for key in first.of})


def combine(operator: ast.operator, left: Structure, right: Structure) -> Structure:
    """The structure of the result of an operator, if it does not raise an error."""
    if Leaf.ARRAY in (left, right):
        return Leaf.ARRAY
    if isinstance(operator, ast.Mult):
        return Leaf.NUMBER if left is right is Leaf.NUMBER else None
    if isinstance(operator, (*_REPEATS, *_MERGES)):
        if Leaf.NUMBER in (left, right):
            return Leaf.NUMBER
        return _concatenate(left, right) if isinstance(operator, ast.Add) else None
    # No tuple, list or dict has `-`, `/`, `//`, `%`, `**`, `@` or shifts.
    return Leaf.ARRAY if isinstance(operator, (ast.Div, ast.MatMult)) else Leaf.NUMBER


def _concatenate(left: Structure, right: Structure) -> Structure:
    if not isinstance(left, Parts) or not isinstance(right, Parts) or left.kind is not right.kind:
        return None
    if left.kind is dict:
        return None
    return Parts(left.kind, dict(enumerate([*left.of.values(), *right.of.values()])))


def can_change(structure: Structure) -> bool:
    """Whether a value may be changed in place: it is a list or dict, or contains one."""
    if not isinstance(structure, Parts):
        return False
    return structure.kind is not tuple or any(map(can_change, structure.of.values()))


def is_all_leaves(structure: Structure) -> bool:
    """Whether all parts of a value are known, down to the leaves."""
    if isinstance(structure, Parts):
        return all(map(is_all_leaves, structure.of.values()))
    return structure is not None


def as_arrays(structure: Structure) -> Structure:
    """The structure after tracing: numbers are arrays."""
    if isinstance(structure, Parts):
        return Parts(structure.kind, {k: as_arrays(part) for k, part in structure.of.items()})
    return Leaf.ARRAY if structure is Leaf.NUMBER else structure
