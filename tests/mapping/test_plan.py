"""The parts of a plan: blocks and rows, static arguments, the description for other processes."""

import jax
import numpy as np
import pytest

from shardlift.mapping import plan
from shardlift.mapping.meshes import DeviceRows, make_mesh
from shardlift.mapping.pmap_options import check_options

X = np.ones((2, 1, 3), np.float32)
MESH = make_mesh(DeviceRows(tuple(jax.devices()), 8), "i", ())


def test_unstack_takes_the_row_of_a_block():
    assert plan.unstack(X, 1, 8).shape == (2, 3)
    assert plan.unstack(X, None, 8) is X
    with pytest.raises(ValueError, match="a block has 2 rows on each of 8 devices"):
        plan.unstack(X, 0, 8)


def test_the_description_is_the_same_in_every_process():
    class Weird:
        pass

    def fun(x, how):
        return x

    options = check_options(fun, axis_name="i", static_broadcasted_argnums=1, donate_argnums=0)
    objects = [Weird(), Weird()]  # both alive: at two addresses
    texts = {plan.describe(fun, options, MESH, (X, each), {"k": 1.0}) for each in objects}
    (text,) = texts
    assert f"fun (line {fun.__code__.co_firstlineno}) over {{'i': 8}}" in text
    assert "donated (0,)" in text
    assert "Weird object" in text
    assert "float32[2,1,3]" in text
