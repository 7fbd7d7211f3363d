"""What the tape keeps of arrays."""

from typing import Any
from unittest import mock

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift.capture.schema import Capture, Part, Sample, SiteFacts, SiteKind, Values
from shardlift.facts import Recorder
from shardlift.recording.site_records import SiteKey, SiteRecord
from shardlift.recording.tape import host_arrays
from shardlift.recording.tape.host_arrays import read_array
from shardlift.recording.tape.options import TapeOptions
from shardlift.recording.tape.tape import ReferenceRun, Tape

ROWS = np.arange(48, dtype=np.float32).reshape(8, 6)


def _placed(array: Any, *axes: Any) -> jax.Array:
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
    return jax.device_put(array, NamedSharding(mesh, PartitionSpec(*axes)))


def _site(tape: Tape) -> SiteRecord:
    return Recorder(facts=False, tape=tape)._site(SiteKey("a.py", 1, "f"), SiteKind.PMAP)


def test_an_array_that_is_kept_is_read_once() -> None:
    tape = Tape(TapeOptions(keep=1000))
    site = _site(tape)
    array = _placed(ROWS, ("a", "b"))
    tape.put(site, 0, Part.OUTPUTS, tape._read(site, 0, Part.OUTPUTS, [("output", array, 0)]))
    with mock.patch.object(host_arrays, "read_array", side_effect=AssertionError):
        again = tape._read(site, 1, Part.INPUTS, [("x", array, 0)])
    assert again[0].form.path == "x"
    tape.put(site, 1, Part.INPUTS, again)
    assert tape.arrays["0.1.inputs.0"] is tape.arrays["0.0.outputs.0"]
    assert tape.room == {Part.OUTPUTS: 1000 - ROWS.nbytes, Part.INSIDE: 1000, Part.INPUTS: 1000}


def test_values_are_read_in_the_first_calls_while_there_is_room() -> None:
    tape = Tape(TapeOptions(keep=1000, kept_calls=1))
    tape.room[Part.OUTPUTS] = 0
    site, array = _site(tape), _placed(ROWS, ("a", "b"))
    row = [("x", array, 0)]
    assert tape._read(site, 0, Part.INPUTS, row)[0].values is not None
    for call, part in ((1, Part.INPUTS), (0, Part.OUTPUTS)):  # a later call, and no room
        (host,) = tape._read(site, call, part, row)
        assert host.values is None
        assert host.digest == read_array("x", array, 0).digest


def test_later_values_are_read_where_they_differ_from_the_reference() -> None:
    rows = [("x", _placed(ROWS, "a"), 0), ("y", _placed(ROWS + 1, "a"), 0)]
    known = read_array(*rows[0])
    values = Values(0, (known.digest, ""))
    sample = Sample(5, inputs=values)
    facts = SiteFacts("a.py", 1, "f", samples=(sample,), forms=((known.form, known.form),))
    tape = Tape(TapeOptions(kept_calls=1), ReferenceRun(Capture(sites=(facts,))))
    site = _site(tape)
    x, y = tape._read(site, 5, Part.INPUTS, rows)
    assert x.values is None
    np.testing.assert_array_equal(y.values, ROWS + 1)
    assert [host.values for host in tape._read(site, 6, Part.INPUTS, rows)] == [None, None]


@pytest.mark.parametrize(
    ("axes", "axis"),
    [((("a", "b"),), 0), ((None, "a"), 1), (("a", "b"), 0), (("a",), 0), ((), None)],
)
def test_every_layout_is_read(axes: tuple[Any, ...], axis: int | None) -> None:
    host = read_array("x", _placed(ROWS, *axes))
    assert host.form.axis == axis
    assert host.values is not None
    np.testing.assert_array_equal(host.values, ROWS)


def test_keys_are_read() -> None:
    keys = jax.random.split(jax.random.key(0), 8)
    host = read_array("x", _placed(keys, ("a", "b")))
    assert host.values is not None
    np.testing.assert_array_equal(host.values, jax.random.key_data(keys))
