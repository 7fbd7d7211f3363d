"""Layouts go there and back; digests tell arrays apart and layouts not."""

import runpy
from pathlib import Path

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlift.capture.array_digest import digest_of
from shardlift.capture.layouts import (
    from_root,
    layout_of,
    numpy_dtype,
    root,
    same_arrays,
    same_digest,
    together,
)

OLD = runpy.run_path(str(Path(__file__).parents[2] / "examples/record_legacy.py"))
arrays = hnp.arrays(
    st.sampled_from([np.float32, np.int8, np.bool_, np.complex64]),
    hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4),
    elements=st.sampled_from([0, 1]),
)


@given(arrays, st.data())
def test_there_and_back(array, data):
    axis = data.draw(st.none() | st.integers(0, array.ndim - 1))
    least = root(array, axis)
    again = from_root(least.reshape(-1), array.shape, axis)
    np.testing.assert_array_equal(again, array)
    assert least.size <= array.size


@given(arrays, st.integers(2, 5))
def test_copies_and_blocks_have_the_same_digest(array, n):
    copies = np.stack([array] * n)
    assert same_digest(digest_of(copies, 0), digest_of(array))
    assert layout_of(copies.shape, array.shape) is not None
    rows = np.stack([array, *[array + array.dtype.type(1)] * (n - 1)])
    joined = rows.reshape(n * array.shape[0], *array.shape[1:])
    assert same_digest(digest_of(rows, 0), digest_of(joined))
    assert layout_of(rows.shape, joined.shape) is not None
    left, right, _ = together(rows, joined)
    np.testing.assert_array_equal(left, right)
    right, left, _ = together(joined, rows)
    np.testing.assert_array_equal(left, right)
    assert left.shape == rows.shape


@given(arrays, st.integers(2, 4), st.data())
def test_another_axis(array, n, data):
    axis = data.draw(st.integers(0, array.ndim))
    copies = np.stack([array] * n, axis=axis)
    assert same_digest(digest_of(copies, axis), digest_of(array))
    left, right, rows = together(copies, array, (axis, None))
    np.testing.assert_array_equal(left, right)
    assert left.shape[rows] == n
    for axes in ((axis, None), (None, axis)):
        assert together(copies, copies, axes)[2] == axis
    with pytest.raises(ValueError, match="are no root of an array of shape"):
        from_root(np.zeros(7), array.shape, axis)


@given(hnp.arrays(np.float32, (4, 3)), st.integers(0, 11), st.integers(0, 31))
def test_one_bit_makes_another_digest(array, place, bit):
    other = array.copy()
    other.reshape(-1).view(np.uint32)[place] ^= np.uint32(1 << bit)
    assert not same_digest(digest_of(array, 0), digest_of(other, 0))
    assert not same_arrays([digest_of(array)], [digest_of(other)])


def test_copies_with_one_bit_in_one_row():
    one = np.arange(6, dtype=np.float32)
    rows = np.stack([one] * 8)
    rows.view(np.uint32)[7, 5] ^= 1
    assert not same_digest(digest_of(rows, 0), digest_of(one))


@pytest.mark.parametrize(
    ("before", "axis", "after", "found"),
    [
        ((8, 4), 0, (8, 4), "same"),
        ((8, 4, 3), 0, (32, 3), "joined"),
        ((4, 8, 3), 1, (4, 24), "joined"),
        ((8, 1, 3), 0, (8, 3), "joined"),
        ((8, 0, 3), 0, (0, 3), "joined"),
        ((2, 3), None, (6,), "joined"),
        ((8, 4, 3), 1, (32, 3), "joined"),  # the first axis is the device axis of the other side
        ((2, 4, 5), 0, (8, 5), "joined"),
        ((2, 4, 5), 0, (40,), "joined"),  # maps of 2 and 4, one inside the other
        ((8,), 0, (), "copies"),
        ((8, 4), None, (4,), "copies"),
        ((16, 8, 3), 1, (16, 3), "copies"),
        # Another shape on each device is no layout.
        ((8, 4, 3), 0, (8, 12), None),
        ((8, 4, 3), 0, (96,), None),
        ((8, 4, 1), 0, (8, 4), None),
        ((8, 3, 2), 0, (8, 2), None),
        ((8, 3, 2), 0, (8, 3), None),
        ((8, 4), 0, (4, 8), None),
        ((8, 4), 0, (8, 5), None),
        ((8, 4), 0, (2,), None),
    ],
)
def test_shapes(before, axis, after, found):
    assert layout_of(before, after, (axis, None), 8) == found
    assert layout_of(after, before, (None, axis), 8) == found


def test_orders_do_not_matter_to_inputs():
    a, b = np.arange(3.0), np.arange(4.0)
    both, stacked = [digest_of(a), digest_of(b)], [digest_of(np.stack([b] * 8), 0), digest_of(a)]
    assert same_arrays(both, stacked)
    assert not same_arrays(both, [digest_of(a), digest_of(a)])
    assert same_arrays(["", *both], both)


def test_dtypes_by_name():
    assert (numpy_dtype("bfloat16").itemsize, numpy_dtype("float64")) == (2, np.float64)
    assert numpy_dtype("key<fry>") == np.uint32


@given(arrays, st.none() | st.integers(0, 3))
def test_old_programs_are_recorded_with_the_same_digests(array, axis):
    assert OLD["digest_of"](array, axis) == digest_of(array, axis)
