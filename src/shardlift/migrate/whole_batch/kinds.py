"""What a value on one device has to do with the value that the whole batch gives."""

from __future__ import annotations

import ast
from enum import StrEnum


class Kind(StrEnum):
    """The relation of the values on the devices to the one value of the whole batch."""

    SAME = "the same on all devices"  # and equal to the one value
    ROWS = "rows of the batch"  # the values of the devices, one after the other, are the one value
    MEAN = "a mean over the rows of one device"  # the mean of them is the one value
    SUM = "a sum over the rows of one device"  # the sum of them is the one value
    COUNT = "the number of rows on one device"  # the sum, too, but a number of Python


SAME, ROWS, MEAN, SUM, COUNT = Kind
_ADDING = (ast.Add, ast.Sub)


def combine(operator: ast.operator, left: Kind, right: Kind) -> Kind | None:
    """The kind of `left operator right`; None if the whole batch would give another number.

    >>> combine(ast.Add(), Kind.MEAN, Kind.SAME).name
    'MEAN'
    >>> combine(ast.Div(), Kind.SUM, Kind.COUNT).name
    'MEAN'
    >>> combine(ast.Mult(), Kind.MEAN, Kind.MEAN)
    """
    if {left, right} <= {SAME, ROWS}:
        return left if left is right else ROWS
    if isinstance(operator, ast.MatMult):
        return _scaled(left, right)
    if isinstance(operator, _ADDING):
        return _added(left, right)
    if isinstance(operator, ast.Mult):
        return _scaled(left, right)
    if isinstance(operator, ast.Div):
        if (left, right) == (SUM, COUNT):
            return MEAN
        return left if right is SAME and left in (MEAN, SUM) else None
    return None


def _added(left: Kind, right: Kind) -> Kind | None:
    if left is right and left in (MEAN, SUM):
        return left
    return MEAN if {left, right} == {MEAN, SAME} else None


def _scaled(left: Kind, right: Kind) -> Kind | None:
    """The kind of a product: linear in one factor, the other is the same on all devices."""
    if SAME not in (left, right):
        return None
    other = right if left is SAME else left
    return other if other in (MEAN, SUM) else None


def matmul(left: Kind, right: Kind) -> Kind | None:
    """The kind of `left @ right`: rows may be multiplied by what all devices share only."""
    if (left, right) == (ROWS, ROWS):
        return None
    return combine(ast.MatMult(), left, right)
