"""in_axes and out_axes spread over trees, names of leaves, sizes and their messages."""

import functools

import numpy as np
import pytest

from shardlift.mapping import axes
from shardlift.mapping.pmap_options import check_options

X = np.ones((8, 2, 3), np.float32)


@pytest.mark.parametrize(
    ("in_axes", "static", "expected"),
    [
        (0, (1,), [0, 0, 0]),
        ((0, None, {"a": 1}), (), [0, None, 1, 0]),
        ((0, None, 1), (1,), [0, 1, 0]),
        ((0, None, 1), (0, 2), [None, 0]),
        (-1, (0, 1), [2, 0]),
        (-4, (0, 1), [-4, 0]),  # more than there are: left to the check
    ],
)
def test_axes_of_leaves(in_axes, static, expected):
    options = check_options(print, in_axes=in_axes, static_broadcasted_argnums=static)
    args = options.dynamic((X, X, {"a": X}))
    assert axes.leaf_axes(options, args, {"b": X}) == expected


@pytest.mark.parametrize(
    ("prefix", "tree", "what", "message"),
    [
        (
            ({"a": 0},),
            ({"b": 1},),
            "in_axes",
            "in_axes[0] is a dict with keys ['a'], but the arguments there are a dict with keys "
            "['b']",
        ),
        (((0, [0, 0]),), ((1, [2]),), "in_axes", "different lengths of list at key path"),
        ((0, (0,)), (1, 2), "out_axes", "out_axes[1] is a tuple of length 1, but the output"),
    ],
)
def test_the_message_names_the_first_mismatch(prefix, tree, what, message):
    with pytest.raises(ValueError, match="must be a tree prefix") as caught:
        axes.prefix_leaves(prefix, tree, what)
    assert message in str(caught.value)
    assert ("Static arguments are counted" in str(caught.value)) == (what == "in_axes")


def test_names_of_arguments():
    def fun(state, *rest, flag=0): ...

    names = axes.argument_names(fun, ({"w": 1}, 2, [3]), {"z": 4, "flag": (5,)}, [0, 2, 3])
    assert names == ["state['w']", "args[2]", "args[3][0]", "flag[0]", "z"]
    assert axes.argument_names(print, (1,), {}, [0]) == ["args[0]"]
    assert axes.argument_names(functools.partial(fun, 1), (1,), {}, [0]) == ["args[0]"]


def test_sizes_that_disagree_are_listed_five_per_size():
    leaves = [np.ones(8)] * 7 + [np.ones(4)]
    names = [f"x[{k}]" for k in range(8)]
    with pytest.raises(ValueError, match="inconsistent sizes") as caught:
        axes.mapped_size(leaves, [0] * 8, lambda: names)
    lines = str(caught.value).splitlines()
    assert lines[1].endswith("axis 0 of x[4], shape (8,); and 2 more")
    assert lines[2] == "  * size 4: axis 0 of x[7], shape (4,)"
    assert "one row per device" in lines[3]
