"""call_inner: on a mesh axis of the outer pmap, by vmap, or with a request for an axis."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardlift.mapping import nesting
from shardlift.mapping.call import Call
from shardlift.mapping.nested_call import call_inner
from shardlift.mapping.nesting import Frame, NeedsInner
from shardlift.mapping.options import check_options

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")
X = jnp.arange(6.0).reshape(2, 3)


def share(x):
    return x / jax.lax.psum(x, "j")


def call(*args, axes, size):
    leaves, tree = jax.tree.flatten((args, {}))
    return Call(args, {}, leaves, tree, list(axes), size)


ROWS = call(X, axes=[0], size=2)


def inner(frame, fun=share, **given):
    return call_inner(fun, check_options(fun, axis_name="j", **given), ROWS, frame)


def test_without_an_axis_for_it_the_outer_pmap_is_asked_for_one():
    with pytest.raises(NeedsInner, match="a nested pmap over 'j' of size 2") as caught:
        inner(Frame((("i", 4),), depth=1))
    assert caught.value.axis == ("j", 2)


@pytest.mark.parametrize(
    "frame",
    [
        None,  # in a shard_map of the user's own
        Frame((("i", 4), ("k", 2)), depth=1),  # a sibling of another name has the axis
        Frame((("i", 4), ("j", 3)), depth=1),  # or of another size
        Frame((("j", 4),), depth=1),  # it shadows the outer name
    ],
)
def test_rows_that_no_mesh_axis_can_take_are_vmapped(frame):
    np.testing.assert_allclose(inner(frame), X / X.sum(0))


def test_without_jit_it_is_vmapped():
    with jax.disable_jit():
        np.testing.assert_allclose(inner(Frame((("i", 4),), depth=1)), X / X.sum(0))


@pytest.mark.parametrize(("axis", "shape"), [(0, (2, 3)), (1, (3, 2)), (None, (3,))])
def test_out_axes(axis, shape):
    out = inner(None, out_axes=axis)
    assert out.shape == shape
    expected = X / X.sum(0)
    np.testing.assert_allclose(
        out, expected[0] if axis is None else jnp.moveaxis(expected, 0, axis)
    )


def test_devices_belong_to_the_outermost_pmap():
    with pytest.raises(ValueError, match="give devices= to the outermost pmap"):
        inner(None, devices=jax.devices()[:2])


def test_frames_nest_and_are_left():
    outer, deeper = Frame((("i", 4),), 1), Frame((("i", 4), ("j", 2)), 1)
    assert nesting.current_frame() is None
    with nesting.enter_frame(outer):
        with nesting.enter_frame(deeper):
            assert nesting.current_frame() is deeper
        assert nesting.current_frame() is outer
    assert nesting.current_frame() is None
    assert outer.next_axis() is None
    assert deeper.next_axis() == ("j", 2)
