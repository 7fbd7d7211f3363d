"""`shardlift doctor`: what is installed, and whether pmap works here."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import jax
import pytest
from click.testing import CliRunner

from shardlift import __version__
from shardlift.cli import doctor as module
from shardlift.cli.children import Done
from shardlift.cli.doctor import doctor, notes
from shardlift.source import old_libraries
from tests import children

FINE = {"jax": "0.12.0.1", "jaxlib": "0.12.0.1", "flax": "0.12.12"}


@pytest.mark.slow
def test_all_is_well_here():
    env = os.environ | {"FORCE_COLOR": "1"}
    done = children.run([sys.executable, "-m", "shardlift", "doctor"], env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""  # no spinner
    assert done.stdout.startswith(f"shardlift {__version__}, Python ")
    assert f"\njax {jax.__version__}, jaxlib " in done.stdout
    assert "\nJAX_NUM_CPU_DEVICES=8\n" in done.stdout
    assert re.sub(r"\x1b\[[\d;]*m", "", done.stdout).endswith(
        "ok     your devices: pmap works on 8 cpu (cpu), 1 process\n"
        "ok     8 virtual devices: pmap works on 8 cpu (cpu), 1 process\n"
        "ok     2 processes: pmap works on 4 cpu (cpu), 2 processes\n"
    )


def test_without_jax_what_works_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    result = CliRunner().invoke(doctor)
    assert result.exit_code == 2
    assert "jax not installed" in result.output
    assert "without JAX only check, migrate, report, rule and status work" in result.output
    assert 'pip install "shardlift[jax]"' in result.output


def test_an_old_jax_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_version", lambda name: "0.7.2")
    result = CliRunner().invoke(doctor)
    assert result.exit_code == 2
    assert "JAX 0.7.2 is too old" in result.output


@pytest.mark.parametrize(
    ("change", "system", "python", "environment", "sentence"),
    [
        ({}, "Linux", (3, 13), {}, None),
        ({"jax": "0.10.2", "jaxlib": "0.10.2"}, "Linux", (3, 11), {}, None),
        ({}, "Linux", (3, 99), {}, "Python 3.99 is newer than the tested 3."),
        ({}, "Windows", (3, 13), {}, "on Windows only check, migrate, report and status"),
        ({}, "Linux", (3, 13), {"http_proxy": "proxy.example:3128"}, "may hang with a proxy"),
        ({"jax": "0.99.1", "jaxlib": "0.99.0"}, "Linux", (3, 13), {}, "newer than the tested 0."),
        ({"jaxlib": "0.10.2"}, "Linux", (3, 13), {}, "jaxlib 0.10.2 does not fit JAX 0.12.0.1"),
        ({"flax": "0.8.5"}, "Linux", (3, 13), {}, "pip install -U 'flax>=0.12.7'"),
    ],
)
def test_what_is_not_supported_is_named(
    change: dict[str, str], system: str, python: Any, environment: Any, sentence: str | None
):
    said = list(notes(FINE | change, system, python, environment))
    assert len(said) == (sentence is not None)
    assert (sentence or "") in "".join(said)


def test_what_fails_is_told_with_its_error_and_a_way_out(monkeypatch):
    output = "[0] Traceback\n  File\n[0] RuntimeError: no route\n(set X to see more)\n"
    monkeypatch.setattr(module, "run_python", lambda *_, **__: Done(1, output))
    result = CliRunner().invoke(doctor)
    assert result.exit_code == 1
    assert "FAILED 2 processes: RuntimeError: no route\n       → " in result.output


def test_what_hangs_is_ended():
    found = module._test(["-c", "import time; time.sleep(60)"], {}, 0.2)
    assert found == (True, "did not finish within 0 s")


def _row(library: str, version: str, plain: str, run: str, reason: str = "") -> dict[str, Any]:
    result = {"plain": plain, "run": run, "reason": reason}
    results = {"0.12.0.1": result}
    return {"library": library, "version": version, "date": "2023-01-01", "results": results}


TABLE = {
    "date": "2026-11-18",
    "python": {"0.10.2": "3.11", "0.12.0.1": "3.13"},
    "releases": [
        _row("flax", "0.6.3", "jax", "jax", "jax.config.define_bool_state"),
        _row("flax", "0.7.5", "jax", "works", "jax.core.Trace"),
        _row("flax", "0.10.0", "works", "works"),
        _row("flax", "0.12.0", "works", "works"),
        _row("dm-haiku", "0.0.10", "jax", "works", "PmapFunction"),
        _row("oryx", "0.2.9", "jax", "jax", "core.CallPrimitive"),
        _row("optax", "0.1.0", "works", "works"),
    ],
}
FILES = {
    "requirements.txt": "--index-url x\nFlax==0.7.5 # old\ndm_haiku==0.0.10 ; python_version>'3'\n"
    "optax\noryx<0.3 --hash=sha256:0\nnumpy==1.0\n-r more.txt\n",
    "environment.yml": "dependencies:\n  - pip:\n    - flax==0.7.5\n    - dm-haiku==0.0.10\n"
    "    - optax==0.1.0\n    - oryx==0.2.9\n",
    "uv.lock": '[[package]]\nname = "flax"\nversion = "0.7.5"\n[[package]]\nname = "dm-haiku"\n'
    'version = "0.0.10"\n[[package]]\nname = "optax"\nversion = "0.2"\n[[package]]\n'
    'name = "oryx"\nversion = "0.2.9"\n',
    "pyproject.toml": '[project]\ndependencies = ["flax<0.8", "dm-haiku==0.0.10", "optax>=0.1"]\n'
    '[project.optional-dependencies]\nmore = ["oryx"]\n',
}


@pytest.mark.parametrize("name", FILES)
def test_what_holds_the_pin(tmp_path, monkeypatch, name: str):
    monkeypatch.setattr(old_libraries, "_table", lambda: TABLE)
    (tmp_path / name).write_text(FILES[name])
    result = CliRunner().invoke(doctor, [str(tmp_path / name)])
    assert result.exit_code == 1
    assert sorted(result.output.splitlines()) == [
        "pin    3 of 4 JAX libraries break on JAX 0.12.0.1, as tested on 2026-11-18",
        "pin    dm-haiku 0.0.10 breaks on JAX 0.12.0.1 (PmapFunction); no tested release works; "
        "`shardlift run` bridges it",
        "pin    flax 0.7.5 breaks on JAX 0.12.0.1 (jax.core.Trace); 0.10.0 and newer work; "
        "`shardlift run` bridges it",
        "pin    oryx 0.2.9 breaks on JAX 0.12.0.1 (core.CallPrimitive); no tested release works; "
        "`shardlift run` does not help",
    ]
    result = CliRunner().invoke(doctor, ["--format", "json", str(tmp_path / name)])
    left = json.loads(result.output)["left"]
    assert {(one["library"], one["works"], one["bridged"]) for one in left} == {
        ("flax", "0.10.0", True),
        ("dm-haiku", None, True),
        ("oryx", None, False),
    }


def test_a_pin_that_is_not_known_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(old_libraries, "_table", lambda: TABLE)
    (tmp_path / "requirements.txt").write_text("flax==0.8\noptax==0.2\noryx==0.3\n")
    result = CliRunner().invoke(doctor, [str(tmp_path / "requirements.txt")])
    assert result.exit_code == 0
    assert result.output == (
        "ok     0 of 3 JAX libraries break on JAX 0.12.0.1, as tested on 2026-11-18; "
        "not known: flax 0.8, oryx 0.3\n"
    )


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "uv.lock").write_bytes(b"\xff")
    result = CliRunner().invoke(doctor, [str(tmp_path / "uv.lock")])
    assert result.exit_code == 2
    assert "cannot be read" in result.output


def test_the_table_is_whole():
    """Every row can be asked for."""
    for library in old_libraries.libraries():
        for version in old_libraries.tested_versions(library):
            row = old_libraries.release(library, version, old_libraries.newest_jax())
            assert row is not None
            assert row.version == version
