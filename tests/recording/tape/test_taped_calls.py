"""Calls of a program on tape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.verify.recording import taped


def test_inputs_and_outputs_are_on_tape() -> None:
    x = jnp.arange(4.0)
    add = lambda n, y, z: n * y + z
    (site,) = taped(lambda: jax.jit(add, static_argnums=0)(2, x, x)).capture.sites
    (sample,) = site.samples
    assert sample.inputs is not None
    assert sample.outputs is not None
    assert (len(sample.inputs.digests), len(sample.outputs.digests)) == (2, 1)
    assert (sample.failed, sample.order, site.axis_size) == (False, 1, 1)


def test_a_call_under_a_transformation_is_counted_as_one() -> None:
    (site,) = taped(lambda: jax.vmap(jax.pmap(abs))(np.ones((2, 8))), patch=True).capture.sites
    assert (site.transformed, site.samples) == (1, ())


def test_wrong_arguments_raise_what_they_did_before() -> None:
    def call() -> None:
        with pytest.raises(ValueError, match="different numbers of rows|inconsistent|size"):
            jax.pmap(lambda x, y: x + y)(np.ones(8), np.ones(4))
        raise ArithmeticError

    (site,) = taped(call, patch=True).capture.sites
    assert [(sample.failed, sample.inputs) for sample in site.samples] == [(True, None)]
