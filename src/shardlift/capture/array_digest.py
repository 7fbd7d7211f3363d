"""The digest of an array: 64 bits of its words, each mixed with its place in C order.

It is the sum of mixed words, so devices can add up their own parts and the host only adds the sums.
One changed word always changes it; other changes go unnoticed once in 2**64 times. Stacking along
an axis and joining along it give the same digest. If all rows along the device axis are the same,
the digest of one row follows after a slash: copies of an array are recognised by it.
"""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
BLOCK = 2**15  # words that are mixed at once: they fit into the cache
# The bits of types that are stored in more of them than they have.
NARROW = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}


def mix(words: Any, places: Any) -> tuple[Any, Any]:
    """Two numbers for each word at its place; arrays of uint32, of NumPy or JAX."""
    first = _scatter(words ^ (places * _number(0x9E3779B1)), 16, 0x85EBCA6B, 13, 0xC2B2AE35)
    mixed = words * _number(0xCC9E2D51) + places * _number(0x1B873593) + _number(0x68E31DA4)
    return first, _scatter(mixed, 15, 0x2C1B3C6D, 12, 0x297A2D39)


def _scatter(x: Any, one: int, first: int, two: int, second: int) -> Any:
    x = (x ^ (x >> _number(one))) * _number(first)
    x = (x ^ (x >> _number(two))) * _number(second)
    return x ^ (x >> _number(16))


def _number(value: int) -> Any:
    return np.uint32(value)


def digest_of(array: Array, axis: int | None = None) -> str:
    """The digest of an array; ``axis`` is the one of the devices, or else the first one.

    >>> one, eight = np.arange(3.0), np.stack([np.arange(3.0)] * 8)
    >>> digest_of(eight).partition("/")[2] == digest_of(one)
    True
    """
    whole = _sum(words_of(array))
    row = _common_row(array, axis or 0)
    return text_of(whole) if row is None else text_of(whole, _sum(words_of(row)))


def text_of(whole: tuple[int, int], row: tuple[int, int] | None = None) -> str:
    """The digest as text, from the sums of the whole array and of its common row."""
    text = f"{whole[0]:08x}{whole[1]:08x}"
    return text if row is None else f"{text}/{row[0]:08x}{row[1]:08x}"


def words_of(array: Array) -> Array:
    """The elements of an array in C order as words of 32 bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    size = flat.dtype.itemsize
    if size in (1, 2):
        words = flat.view(f"u{size}").astype(np.uint32)
        bits = NARROW.get(flat.dtype.name)
        return words if bits is None else words & _number(2**bits - 1)
    return flat.view(np.uint32) if size else np.zeros(0, np.uint32)


def _common_row(array: Array, axis: int) -> Array | None:
    """The row that all rows along an axis are equal to, if there are several."""
    if axis >= array.ndim or array.shape[axis] < 2 or not array.size:
        return None
    rows = np.ascontiguousarray(np.moveaxis(array, axis, 0))
    flat = rows.reshape(len(rows), -1).view(np.uint8)
    return rows[0] if (flat[1:] == flat[:1]).all() else None


def _sum(words: Array) -> tuple[int, int]:
    first = second = 0
    for start in range(0, len(words), BLOCK):
        part = words[start : start + BLOCK]
        places = np.arange(start, start + len(part), dtype=np.uint64).astype(np.uint32)
        sums = [int(mixed.sum(dtype=np.uint32)) for mixed in mix(part, places)]
        first, second = first + sums[0], second + sums[1]
    return first % 2**32, second % 2**32
