"""``shardlift plan``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from click.testing import CliRunner

from shardlift.cli import main
from shardlift.facts import Capture, write
from tests.capture.captures import everything


def plan(*words: str):
    return CliRunner().invoke(main, ["plan", *words])


def test_a_capture(tmp_path: Path):
    write(everything(), tmp_path / "run.json")
    done = plan(str(tmp_path / "run.json"), "--devices", "64", "--per-host", "8", "--link", "50")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("64 devices, 8 hosts of 8; ")
    assert "train_step  train_step.py:12  pmap over i 8 -> 64" in done.output
    assert "as a ring" in done.output


def test_two_captures_and_json(tmp_path: Path):
    whole = everything()
    larger = [dataclasses.replace(site, mesh={"i": 16}, axis_size=16) for site in whole.sites]
    write(whole, tmp_path / "8.json")
    write(dataclasses.replace(whole, sites=tuple(larger)), tmp_path / "16.json")
    files = [str(tmp_path / "8.json"), "--also", str(tmp_path / "16.json")]
    done = plan(*files, "--devices", "64", "--format", "json")
    assert done.exit_code == 0, done.output
    assert [site["mesh"] for site in json.loads(done.output)["sites"]] == [{"i": 64}, {"i": 64}]


def test_what_cannot_be_planned(tmp_path: Path):
    path = str(tmp_path / "run.json")
    assert plan(path, "--devices", "8").exit_code == 2
    write(Capture(), path)
    done = plan(path, "--devices", "8")
    assert (done.exit_code, "has no site that was called" in done.output) == (2, True)
    write(everything(), path)
    done = plan(path, "--devices", "8", "--axis", "x")
    assert done.exit_code == 2
    assert "cannot be planned: there is no axis 'x'; there is i" in done.output
