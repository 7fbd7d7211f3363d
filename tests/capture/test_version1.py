"""Captures of version 1 are read: their sentences become records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardlift.capture import files
from shardlift.capture.schema import (
    HOST,
    IN_PLACE,
    VERSION,
    ArrayRole,
    Capture,
    Form,
    Placement,
    PlacementKind,
    ReadBy,
    Reason,
    ReasonKind,
    Site,
)

SPLIT = Placement(PlacementKind.SPLIT, "cpu:0-7", "P('i')")


def read_site(**fields: Any) -> Site:
    site = {"file": "a.py", "line": 1, "function": "step", **fields}
    tree = {"schema": "shardlift.capture", "version": 1, "sites": [site]}
    return files.loads(json.dumps(tree)).sites[0]


def test_the_capture_becomes_one_of_this_version() -> None:
    tree = {"schema": "shardlift.capture", "version": 1}
    assert files.loads(json.dumps(tree)) == Capture(version=VERSION)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("first call", Reason(ReasonKind.FIRST_CALL)),
        ("not known", Reason(ReasonKind.UNKNOWN)),
        ("the arguments have another structure", Reason(ReasonKind.STRUCTURE)),
        (
            "the same arguments as before: pmap was given a new function, or caches were lost",
            Reason(ReasonKind.SAME_ARGUMENTS),
        ),
        (
            "static argument 0: {'a': 1} → {'a': 2}",
            Reason(ReasonKind.STATIC_ARGUMENT, "0", "{'a': 1}", "{'a': 2}"),
        ),
        (
            "host_batch: float32[8,4] → float32[8,5]",
            Reason(ReasonKind.TYPE, "host_batch", "float32[8,4]", "float32[8,5]"),
        ),
        ("x['a: b']: float[] → int[]", Reason(ReasonKind.TYPE, "x['a: b']", "float[]", "int[]")),
        ("x: weakly typed before", Reason(ReasonKind.WEAK_TYPE, "x", "weak", "strong")),
        ("x: strongly typed before", Reason(ReasonKind.WEAK_TYPE, "x", "strong", "weak")),
        (
            "x: host → P('i') on cpu:0-7",
            Reason(ReasonKind.PLACEMENT, "x", "host", "P('i') on cpu:0-7"),
        ),
        ("x64=False → x64=True", Reason(ReasonKind.CONTEXT, "", "x64=False", "x64=True")),
    ],
)
def test_reasons(text: str, reason: Reason) -> None:
    compiles = [{"call": 0, "at": 0, "seconds": 1, "reasons": [text, "and 3 more"]}]
    (compiled,) = read_site(compiles=compiles).compiles
    assert (compiled.reasons, compiled.reasons_left_out) == ((reason,), 3)


def test_places() -> None:
    common = {"dtype": "float32", "shape": [8], "nbytes": 32, "axis": 0, "spec": "P('i')"}
    leaves = [{"path": "x", **common, "lies": text} for text in ("in place", "host")]
    move = {"path": "x", "nbytes": 4, "count": 1, "by": "pmap", "source": "cpu:3"}
    targets = ("P('i') on cpu:0-7", "whole on each of cpu:0-7")
    site = read_site(arguments=leaves, moves=[{**move, "target": text} for text in targets])
    assert [leaf.placement for leaf in site.arguments] == [IN_PLACE, HOST]
    assert site.moves[0].source == Placement(PlacementKind.ONE_DEVICE, "cpu:3")
    assert [move.target for move in site.moves] == [
        SPLIT,
        Placement(PlacementKind.REPLICATED, "cpu:0-7"),
    ]


def test_reads() -> None:
    read = {"how": "index", "file": "a.py", "line": 1, "count": 1, "nbytes": 4}
    paths = ("output", "output, or 2 of the same type")
    reads = read_site(reads=[{"path": path, **read} for path in paths]).reads
    assert [(one.path, one.how, one.others) for one in reads] == [
        ("output", ReadBy.INDEX, 0),
        ("output", ReadBy.INDEX, 2),
    ]


def test_forms() -> None:
    paths = ("x", "psum #1, operand", "psum (backward pass) #2, result", "random key #1, value")
    forms = [[{"path": path, "dtype": "float32", "shape": [8]} for path in paths]]
    form = Form("", "float32", (8,))
    assert [
        (one.role, one.collective, one.backward) for one in read_site(forms=forms).forms[0]
    ] == [
        (form.role, "", False),
        (ArrayRole.OPERAND, "psum", False),
        (ArrayRole.RESULT, "psum", True),
        (ArrayRole.RANDOM_KEY, "", False),
    ]


@pytest.mark.parametrize("sites", [None, 3, [3], [{"compiles": 3, "forms": [3], "reads": [3]}]])
def test_a_damaged_one_says_so(sites: Any) -> None:
    text = json.dumps({"schema": "shardlift.capture", "version": 1, "sites": sites})
    with pytest.raises(files.CaptureError, match="damaged"):
        files.loads(text)
