"""What the fields of a state need to be the same on all devices."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
import pytest
from jax import lax

import shardlift
from shardlift.capture.proofs import joined
from shardlift.capture.schema import Proof
from shardlift.facts import Recorder

N = len(jax.devices())


class State(NamedTuple):
    params: jax.Array
    stats: jax.Array
    key: jax.Array


def fields_of(step, state, x):
    recorder = Recorder()
    recorder.pmap(shardlift.pmap)(step, axis_name="i")(state, x)
    (site,) = recorder.capture().sites
    return {name: need for proof in site.proofs for name, need in proof.fields.items()}


ROWS = np.zeros((N, 2), np.float32)


@pytest.mark.parametrize("in_a_tuple", [False, True])
def test_each_field_has_its_own_needs(in_a_tuple):
    def step(state, x):
        params = state.params + lax.pmean(x, "i")
        new = State(params, state.stats + x, state.key * lax.axis_index("i").astype(np.float32))
        return (new, x.sum()) if in_a_tuple else new

    name = "output[0]" if in_a_tuple else "output"
    assert fields_of(step, State(ROWS, ROWS, ROWS), ROWS) == {
        f"{name}.params": ("0.params",),
        f"{name}.stats": ("0.stats", "1"),
        f"{name}.key": None,
    }


def test_a_field_that_reads_another_needs_it():
    def step(state, x):
        return {"params": state["params"] * state["stats"], "stats": state["stats"] + x}

    assert fields_of(step, {"params": ROWS, "stats": ROWS}, ROWS) == {
        "output['params']": ("0['params']", "0['stats']"),
        "output['stats']": ("0['stats']", "1"),
    }


def test_outputs_that_are_no_state_have_no_fields():
    assert fields_of(lambda state, x: {"loss": x.sum()}, {"params": ROWS}, ROWS) == {}
    assert fields_of(lambda state, x: (state, x), ROWS, ROWS) == {}


def test_fields_of_several_programs():
    one = Proof("output", 1, fields={"output.a": ("0.a",), "output.b": ("0.b",)})
    other = Proof("output", 1, fields={"output.a": ("1",), "output.b": None})
    assert joined(one, other).fields == {"output.a": ("0.a", "1"), "output.b": None}
    assert joined(one, Proof("output", 1, fields={"output.a": ()})).fields == {}
