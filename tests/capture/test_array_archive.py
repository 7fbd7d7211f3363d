"""The values beside a capture."""

import dataclasses
import io

import numpy as np
import pytest

from shardlift.capture import array_archive
from shardlift.capture.files import dumps, loads
from shardlift.capture.schema import ArrayForm, Capture, Sample, SiteFacts, Values
from shardlift.facts import CaptureError


def test_there_and_back_with_equal_objects_stored_once(tmp_path):
    kept, other = np.arange(5, dtype=np.uint8), np.arange(3, dtype=np.uint8)
    first = array_archive.name_of(0, 1, "outputs", 2)
    array_archive.save({first: kept, "b": other, "c": kept}, tmp_path / "run.json")
    with np.load(tmp_path / "run.json.npz") as archive:
        assert archive["bytes"].tolist() == [*range(5), *range(3)]
    again = array_archive.load(tmp_path / "run.json")
    assert {name: array.tolist() for name, array in again.items()} == {
        "0.1.outputs.2": [*range(5)], "b": [*range(3)], "c": [*range(5)]
    }  # fmt: skip
    array_archive.save({}, tmp_path / "run.json")  # of a run that kept nothing
    assert array_archive.load(tmp_path / "run.json") == {}
    assert list(tmp_path.iterdir()) == []


def test_an_archive_with_one_member_per_array(tmp_path):
    content = archive(**{"0.0.outputs.0": np.arange(5, dtype=np.uint8)})
    (tmp_path / "run.json.npz").write_bytes(content)
    assert array_archive.load(tmp_path / "run.json")["0.0.outputs.0"].tolist() == [*range(5)]


def archive(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        b"PK\x03\x04 cut off",
        archive(x=np.array([{}], dtype=object)),  # objects are not loaded
        archive(x=np.ones(3)),
        archive(x=np.ones((2, 2), np.uint8)),
    ],
)
def test_damaged(tmp_path, content):
    (tmp_path / "run.json.npz").write_bytes(content)
    with pytest.raises(CaptureError, match="is damaged"):
        array_archive.load(tmp_path / "run.json")


def test_digests_belong_to_forms():
    form = ArrayForm("output", "float32", (8,), 0)
    site = SiteFacts(
        "a.py", 1, "f", forms=((form,),), samples=(Sample(0, outputs=Values(0, ("ab",))),)
    )
    assert loads(dumps(Capture(sites=(site,)))).sites == (site,)
    for bad in (Values(1, ("ab",)), Values(0, ())):
        broken = dataclasses.replace(site, samples=(Sample(0, outputs=bad),))
        with pytest.raises(CaptureError, match="digests of call 0 of f"):
            loads(dumps(Capture(sites=(broken,))))
