"""Captures on disk: what is written is read again, and what is damaged says so."""

import contextlib
import dataclasses
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardlift.capture import files
from shardlift.capture.schema import VERSION
from shardlift.facts import CaptureError, read, write

from .captures import NASTY, everything, places

TEXT = files.dumps(everything())
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write(everything(), path)
    write(everything("again"), path)
    assert read(path) == everything("again")
    assert os.listdir(tmp_path) == ["run.json"]
    plain = tmp_path / "plain"
    plain.write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "run.json"
    write(everything(), path)

    def broken(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="no space"):
        write(everything("again"), path)
    assert read(path) == everything()
    assert os.listdir(tmp_path) == ["run.json"]


def test_text_that_is_no_unicode_can_be_written(tmp_path: Path) -> None:
    odd = dataclasses.replace(everything(), command=("a\udc80b",))
    write(odd, tmp_path / "run.json")
    assert read(tmp_path / "run.json").command == ("a\\udc80b",)


def _refused(text: str | bytes) -> str:
    with pytest.raises(CaptureError) as caught:
        files.loads(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "other"}, "is not a capture"),
        ({"version": VERSION + 1}, f"version {VERSION + 1}, and this one reads .* to {VERSION}"),
        ({"version": "1"}, "version is not a number"),
        ({"version": True}, "version is not a number"),
        ({"seconds": "long"}, "seconds should be a number"),
        ({"seconds": -1}, "seconds should be a number"),
        ({"seconds": 10**30}, "seconds should be a number"),
        ({"sites": {}}, "sites should be a list"),
        ({"sites": [3]}, r"sites\[0\] should be an object"),
        ({"sites": [{}]}, "with file"),
        ({"used": [1]}, "used should be an object"),
        ({"used": {"a": 1.5}}, r"used\.a should be a count"),
        ({"patched": 1}, "patched should be true or false"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    assert re.search(message, _refused(json.dumps(json.loads(TEXT) | change)))


def test_a_bucket_that_does_not_exist() -> None:
    tree = json.loads(TEXT)
    tree["sites"][0]["times"]["call"]["buckets"] = [[10**6, 1]]
    assert "strange bucket" in _refused(json.dumps(tree))


def test_not_json_at_all() -> None:
    for text in (b"", b"\x80\x04\x95pickle", b"[" * 100_000, b"nul", b"9" * 10_000, b"{} x"):
        assert "capture" in _refused(text)
    assert "is damaged" in _refused(TEXT[:-9])


def test_no_nan_and_no_infinity() -> None:
    for word in ("NaN", "Infinity", "-Infinity", "1e999"):
        _refused(TEXT.replace('"seconds":2.0', f'"seconds":{word}'))


def test_unknown_keys_are_passed_over() -> None:
    tree = json.loads(TEXT) | {"later": [1]}
    tree["sites"][0]["later"] = {"x": 1}
    assert files.loads(json.dumps(tree)) == everything()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(NASTY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@relaxed
@given(st.data())
def test_a_file_with_something_else_in_it_is_read_or_refused(data: st.DataObject) -> None:
    tree = json.loads(TEXT)
    container, key = data.draw(st.sampled_from(places(tree)))
    container[key] = data.draw(JSON)
    with contextlib.suppress(CaptureError):
        text = files.dumps(files.loads(json.dumps(tree)))
        assert files.dumps(files.loads(text)) == text
