"""SARIF: the document of a run, as its schema (2.1.0) wants it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shardlift.check.rules import all_rules
from shardlift.cli import main


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    cell = {"cell_type": "code", "source": "import jax\njax.pmap(f)"}
    Path("a b.py").write_text("import jax\nx = jax.tree_map(f, y)\n")
    Path("n.ipynb").write_text(json.dumps({"cells": [cell]}))
    Path("old.py").write_text("print 'pmap'\n")
    text = CliRunner().invoke(main, ["check", ".", "--format", "sarif"]).output
    document = json.loads(text)
    assert sorted(document) == ["$schema", "runs", "version"]
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    assert sorted(run) == ["columnKind", "invocations", "results", "tool"]
    return dict(run)


def test_a_result_and_its_rule(run: dict[str, Any]) -> None:
    rule, _ = run["tool"]["driver"]["rules"]
    ours = all_rules()["SL105"]
    assert rule == {
        "id": "SL105",
        "name": ours.name,
        "shortDescription": {"text": ours.summary},
        "fullDescription": {"text": ours.explain.strip()},
        "help": {"text": ours.advice},
        "helpUri": ours.reference,
        "defaultConfiguration": {"level": "error"},
        "properties": {"level": "broken"},
    }
    said = "jax.tree_map was removed in JAX 0.6: use jax.tree.map"
    region = {"startLine": 2, "startColumn": 5, "endLine": 2, "endColumn": 17}
    place = {"artifactLocation": {"uri": "a%20b.py"}, "region": region}
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["results"][0] == {
        "ruleId": "SL105",
        "ruleIndex": 0,
        "level": "error",
        "message": {"text": f"{said}. {ours.advice} [fix]"},
        "locations": [{"physicalLocation": place}],
        "properties": {"rewriter": "fix"},
    }


def test_cells_have_no_region(run: dict[str, Any]) -> None:
    (location,) = run["results"][1]["locations"]
    assert location["physicalLocation"] == {"artifactLocation": {"uri": "n.ipynb"}}
    assert location["logicalLocations"] == [{"name": "cell 1, line 2"}]


def test_what_could_not_be_looked_at_is_in_it(run: dict[str, Any]) -> None:
    (invocation,) = run["invocations"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert (invocation["executionSuccessful"], notification["level"]) == (False, "error")
    assert "not looked at" in notification["message"]["text"]
    place = {"artifactLocation": {"uri": "old.py"}}
    assert notification["locations"] == [{"physicalLocation": place}]
