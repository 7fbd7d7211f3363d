"""`shardlift doctor`: what is installed, and whether pmap works here."""

from __future__ import annotations

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
