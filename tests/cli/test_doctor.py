"""`shardlift doctor`: what is well, and what is not."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner

from shardlift.cli.children import Done
from shardlift.cli.doctor import checks, doctor
from shardlift.cli.doctor.checks import CHECKS, Result, State
from shardlift.cli.doctor.support import Installed, unsupported
from tests import children


@pytest.fixture
def without_jax(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)


def ended(status: int, output: str):
    return lambda *args, **kwargs: Done(status, output, 1.0)


@pytest.mark.slow
def test_all_is_well_here():
    done = children.run([sys.executable, "-m", "shardlift", "doctor"])
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict.fromkeys(CHECKS)
    for line in done.stdout.splitlines():
        for name in CHECKS:
            if line[10:].startswith(name):
                said[name] = (line[:10].strip(), line[29:])
    assert said["settings"][0] == "note"  # those of the tests
    assert said["2 processes"] == ("ok", "a sum over 4 devices and a barrier work")
    assert said["8 virtual devices"][0] == "ok"
    assert said["devices"] == ("ok", "8 cpu, cpu, 1 process")
    assert "6 checks, 0 failed" in done.stdout


def test_without_jax_what_works_is_said(without_jax):
    result = CliRunner().invoke(doctor)
    assert result.exit_code == 2
    assert 'pip install "shardlift[jax]"' in result.output
    assert "ok        check and migrate" in result.output
    assert "6 checks" not in result.output
    assert "3 checks, 0 failed, 3 not run" in result.output


def test_an_old_jax_fails(monkeypatch):
    monkeypatch.setattr(checks, "_version", lambda name: "0.7.2")
    assert checks.versions(1.0).state is State.FAILED


FINE = Installed((3, 13), "0.12.0.1", "0.12.0.1", "0.12.12", "Linux")


def test_what_is_tested_is_supported():
    assert list(unsupported(FINE)) == []
    assert list(unsupported(replace(FINE, python=(3, 11), jax="0.10.2", jaxlib="0.10.2"))) == []
    assert list(unsupported(replace(FINE, jax=None, jaxlib=None, flax=None))) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"python": (3, 99)}, "Python 3.99 is newer than the tested 3."),
        ({"jax": "0.99.1", "jaxlib": "0.99.0"}, "JAX 0.99.1 is newer than the tested 0.12"),
        ({"jaxlib": "0.10.2"}, "jaxlib 0.10.2 does not fit JAX 0.12.0.1"),
        ({"flax": "0.8.5"}, "flax 0.8.5 fails on JAX 0.12.0.1: pip install -U 'flax>=0.12.7'"),
        ({"system": "Windows"}, "on Windows only check, migrate, report and status"),
        ({"has_gil": False}, "without the GIL"),
    ],
)
def test_what_is_not_supported_is_named(change, sentence):
    (said,) = unsupported(replace(FINE, **change))
    assert sentence in said


def test_what_is_not_supported_is_a_note(monkeypatch):
    versions = {"jax": "0.12.0", "jaxlib": "0.12.0", "flax": "0.8.5"}
    monkeypatch.setattr(checks, "_version", versions.get)
    result = checks.versions(1.0)
    assert result.state is State.NOTE
    assert "flax 0.8.5 fails" in result.way_out


def test_what_fails_is_told_with_its_error_and_a_way_out(monkeypatch):
    output = "[0] Traceback\n  File\nRuntimeError: no route\n\n"
    monkeypatch.setattr(checks, "run_python", ended(1, output))
    found = checks.two_processes(10.0)
    assert found == Result(State.FAILED, "RuntimeError: no route", found.way_out)
    assert "127.0.0.1" in found.way_out


def test_what_hangs_is_ended():
    found = checks._run(["-c", "import time; time.sleep(60)"], {}, 0.2, "wait")
    assert found == Result(State.FAILED, "did not finish within 0 s", "wait")


def test_a_failure_is_the_exit_status(monkeypatch):
    failing = {"one": lambda _: Result(State.FAILED, "no", "yes"), "two": CHECKS["settings"]}
    monkeypatch.setattr("shardlift.cli.doctor.CHECKS", failing)
    result = CliRunner().invoke(doctor, ["--quiet"])
    assert result.exit_code == 1
    assert "FAILED    one                no\n          → yes\n" in result.output


def test_a_proxy_is_noted(monkeypatch):
    monkeypatch.setenv("http_proxy", "proxy.example:3128")
    found = checks.settings(1.0)
    assert found.state is State.NOTE
    assert "http_proxy" in found.text
    assert "initialize may hang" in found.way_out
