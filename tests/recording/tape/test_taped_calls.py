"""Calls of a program on tape, and calls that are run again on the inputs of another program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.verify.recording import compared, one, program, taped


def test_inputs_and_outputs_are_on_tape() -> None:
    x = jnp.arange(4.0)
    (site,) = taped(lambda: jax.jit(lambda x, n: x * n, static_argnums=1)(x, 2)).capture.sites
    (sample,) = site.samples
    assert sample.inputs is not None
    assert sample.outputs is not None
    assert (len(sample.inputs.digests), len(sample.outputs.digests)) == (1, 1)
    assert (sample.failed, sample.order, site.axis_size) == (False, 1, 1)


def test_wrong_arguments_raise_what_they_did_before() -> None:
    def call() -> None:
        with pytest.raises(ValueError, match="different numbers of rows|inconsistent|size"):
            jax.pmap(lambda x, y: x + y)(np.ones(8), np.ones(4))
        raise ArithmeticError

    (site,) = taped(call, patch=True).capture.sites
    assert [(sample.failed, sample.inputs) for sample in site.samples] == [(True, None)]


def test_callbacks_are_not_run_again_for_a_replay() -> None:
    """The inputs differ, so the call would also be run on the inputs of the program before."""
    text = """
from jax.experimental import io_callback
numbers = []
def count(x):
    numbers.append(1)
    return np.float32(len(numbers))
def step(x, y): return x[0] * 0 + io_callback(count, jax.ShapeDtypeStruct((), jnp.float32), x[0])
f = jax.jit(step)
for k in range(3):
    f(np.ones(2, "f4"), np.full(2, OTHER, "f4"))
"""
    old, new = text.replace("OTHER", "1"), text.replace("OTHER", "2")
    found = one(compared(program(old), program(new)))
    assert (found.verdict, found.calls, found.replays) == ("identical", 3, 0)
    assert found.notes == ("not seen: replays: the function calls back to the host",)


def test_functions_that_only_compute_are_run_again() -> None:
    text = """
def step(x): return x + 1
f = jax.jit(step)
for k in range(3):
    f(np.full(2, OTHER, "f4"))
"""
    old, new = text.replace("OTHER", "1"), text.replace("OTHER", "2")
    found = one(compared(program(old), program(new)))
    assert (found.verdict, found.replays, found.itself) == ("different", 3, False)
    assert not any("replays" in note for note in found.notes)
