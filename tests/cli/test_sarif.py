"""SARIF against the parts of its schema that a run of ours uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shardlift.cli import main

# What a property holds: a type, one of several words, an object, a list of one of these. A name
# with `!` is required.
_TEXT = {"text!": str}
_LEVEL = ("none", "note", "warning", "error")
_LOCATION = {
    "physicalLocation": {
        "artifactLocation!": {"uri": str, "uriBaseId": str, "index": int},
        "region": {"startLine": int, "startColumn": int, "endLine": int, "endColumn": int},
    },
    "logicalLocations": [{"name": str}],
}
_RULE = {
    "id!": str, "name": str, "helpUri": str,
    "shortDescription": _TEXT, "fullDescription": _TEXT, "help": _TEXT,
    "defaultConfiguration": {"level": _LEVEL}, "properties": {"level": str},
}  # fmt: skip
_RESULT = {
    "message!": _TEXT, "ruleId": str, "ruleIndex": int, "level": _LEVEL,
    "locations": [_LOCATION], "properties": {"rewriter": str},
}  # fmt: skip
_NOTIFICATION = {"message!": _TEXT, "level": _LEVEL, "locations": [_LOCATION]}
_RUN = {
    "tool!": {"driver!": {"name!": str, "version": str, "rules": [_RULE]}},
    "results": [_RESULT],
    "invocations": [{"executionSuccessful!": bool, "toolExecutionNotifications": [_NOTIFICATION]}],
    "columnKind": ("utf16CodeUnits", "unicodeCodePoints"),
}
SCHEMA = {"version!": ("2.1.0",), "runs!": [_RUN], "$schema": str}


def validate(value: Any, schema: Any, path: str = "$") -> None:
    """Types, required and allowed properties, enumerations; lines and columns count from 1."""
    if isinstance(schema, list):
        assert isinstance(value, list), path
        for number, item in enumerate(value):
            validate(item, schema[0], f"{path}[{number}]")
    elif isinstance(schema, type):
        assert type(value) is schema, f"{path}: {value!r} is no {schema.__name__}"
        if path.endswith(("Line", "Column")):
            assert value >= 1, path
    elif isinstance(schema, tuple):
        assert value in schema, f"{path}: {value!r}"
    else:
        assert isinstance(value, dict), path
        required = {name[:-1] for name in schema if name.endswith("!")}
        assert required <= set(value), f"{path}: {sorted(value)}"
        known = {name.rstrip("!"): kind for name, kind in schema.items()}
        for key, item in value.items():
            assert key in known, f"{path}: no property {key}"
            validate(item, known[key], f"{path}.{key}")


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    cell = {"cell_type": "code", "source": "import jax\njax.pmap(f)"}
    Path("a b.py").write_text("import jax\nx = jax.tree_map(jax.pmap(f), y)\n")
    Path("n.ipynb").write_text(json.dumps({"cells": [cell]}))
    Path("old.py").write_text("print 'pmap'\n")
    return json.loads(CliRunner().invoke(main, ["check", ".", "--format", "sarif"]).output)


def test_valid(document: Any) -> None:
    validate(document, SCHEMA)
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len(run["results"]) == 3
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])
    with pytest.raises(AssertionError):
        validate({"version": "2.1.0", "runs": [{}]}, SCHEMA)


def test_places_are_uris_and_cells_have_no_region(document: Any) -> None:
    places = [result["locations"][0] for result in document["runs"][0]["results"]]
    assert places[0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b.py"
    assert places[0]["physicalLocation"]["region"]["startLine"] == 2
    assert "region" not in places[2]["physicalLocation"]
    assert places[2]["logicalLocations"] == [{"name": "cell 1, line 2"}]


def test_what_could_not_be_looked_at_is_in_it(document: Any) -> None:
    (invocation,) = document["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert "not looked at" in notification["message"]["text"]
