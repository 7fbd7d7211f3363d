"""What is run, and in what."""

import dataclasses
import os
import sys

import numpy as np
import pytest

from shardlift.capture.parts import part_path
from shardlift.capture.schema import Process
from shardlift.facts import Capture, write
from shardlift.launch.program import Program
from shardlift.launch.session import RunOptions
from shardlift.verify import child_environment, runs
from shardlift.verify.child_environment import DETERMINISTIC, environment
from shardlift.verify.compare.array_distance import Tolerance
from shardlift.verify.compare.captured_run import CapturedRun
from shardlift.verify.compare.verdicts import Side
from shardlift.verify.runs import (
    CannotRunError,
    ComparisonOptions,
    Run,
    RunSource,
    judge_runs,
    parse_target,
    record,
    run_and_read,
    settings_from_capture,
)
from tests.verify.recording import by_hand


def test_what_is_what(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    write(Capture(), tmp_path / "run.json")
    assert parse_target("train.py", ["-x"]).program == Program("train.py", ("-x",))
    assert parse_target("python train.py -a", ["-x"]).program == Program("train.py", ("-a", "-x"))
    source = parse_target("A=1 B= python3 -m pkg.go", ["C=2"])
    assert (source.program, source.environ) == (
        Program("pkg.go", ("C=2",), module=True),
        {"A": "1", "B": ""},
    )
    assert parse_target("-m pkg.go").program == Program("pkg.go", (), module=True)
    assert parse_target("pytest -k x").program == Program("pytest", ("-k", "x"), module=True)
    assert parse_target("run.json").program is None
    for bad in ("no.such.thing", "  ", "./x y", "python", "-m"):
        with pytest.raises(CannotRunError, match="is neither"):
            parse_target(bad)
    with pytest.raises(CannotRunError, match=r"no such file: nowhere\.py"):
        parse_target("nowhere.py -x")


def test_devices(monkeypatch):
    monkeypatch.setattr(child_environment, "has_accelerator", lambda: False)
    assert environment(None, {})["JAX_NUM_CPU_DEVICES"] == "8"
    assert environment(4, {})["JAX_NUM_CPU_DEVICES"] == "4"
    assert environment(4, {"JAX_PLATFORMS": "cuda"})["JAX_PLATFORMS"] == "cpu"
    assert "JAX_NUM_CPU_DEVICES" not in environment(None, {"JAX_PLATFORMS": "cuda"})
    assert environment(None, {"JAX_PLATFORMS": "cpu"})["JAX_NUM_CPU_DEVICES"] == "8"
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    assert "JAX_NUM_CPU_DEVICES" not in environment(None, flags)
    monkeypatch.setattr(child_environment, "has_accelerator", lambda: True)
    assert "JAX_PLATFORMS" not in environment(None, {})
    assert environment(None, {})["PYTHONHASHSEED"] == "0"


def _capture(
    jax: str = "0.10.2", devices: int = 4, platform: str = "cpu", index: int = 0, count: int = 1
) -> Capture:
    names = ("cpu",) * devices
    process = Process(index, count, "3.11", jax, "1.0", platform, platform, names)
    return Capture(processes=(process,))


def test_settings_from_a_capture(monkeypatch):
    monkeypatch.delenv(runs.THREEFRY, raising=False)
    settings = ComparisonOptions(Tolerance())
    assert settings_from_capture(Capture(), settings) == (settings, [])
    assert settings_from_capture(_capture(), settings)[0].devices == 4
    assert settings_from_capture(_capture(platform="gpu"), settings)[0].devices is None
    chosen = ComparisonOptions(Tolerance(), devices=2)
    assert settings_from_capture(_capture(), chosen)[0].devices == 2
    old, (note,) = settings_from_capture(_capture(jax="0.4.30"), settings)
    assert old.environ == {runs.THREEFRY: "0"}
    assert "JAX before 0.5 draws other random numbers" in note
    restored = dataclasses.replace(_capture(), used={"jax.random.PRNGKey": 3})  # by `run`
    assert settings_from_capture(restored, settings)[0].environ == {runs.THREEFRY: "0"}


def _run(*captures: Capture) -> Run:
    parts = {k: CapturedRun(capture, {}) for k, capture in enumerate(captures)}
    return Run(Side("train.py"), parts, "run.json")


@pytest.mark.parametrize("processes", [1, 2])
def test_what_a_run_records(tmp_path, monkeypatch, processes):
    """The program is not started: what it is started with, and what is read afterwards."""
    out, started = str(tmp_path / "after.json"), []

    def run_program(source, options, settings, env):
        started.append((options, env))
        for k in range(processes):
            part = _capture(index=k, count=processes)
            write(part, part_path(out, k) if processes > 1 else out)
        return 3, {"stdout": "loss 1"}, "the end"

    monkeypatch.setattr(runs, "run_program", run_program)
    settings = ComparisonOptions(
        Tolerance(), devices=2, processes=processes, environ={"ONLY_AFTER": "1"}
    )
    source = RunSource("train.py", Program("train.py"), {"SEED": "7"})
    told = []
    first = record(source, settings, out, told.append)
    second = record(source, settings, out, told.append, before=first)
    assert told == ["running before: train.py", "running after: train.py"]
    assert (second.side.status, second.side.error, second.side.jax) == (3, "the end", "0.10.2")
    assert (len(second.parts), second.output) == (processes, {"stdout": "loss 1"})
    (before, before_env), (after, after_env) = started
    assert (before.patch, before.reference) == (True, None)
    assert (after.patch, after.reference) == (False, first.path)
    assert (before_env["SEED"], after_env["SEED"]) == ("7", "7")
    assert ("ONLY_AFTER" in before_env, "ONLY_AFTER" in after_env) == (False, True)


def test_a_program_without_a_call_has_nothing_to_compare(tmp_path, monkeypatch):
    source = RunSource("train.py", Program("train.py"))
    for status, how in ((1, "ended with status 1"), (-9, "was killed by signal 9")):
        monkeypatch.setattr(runs, "run_program", lambda *_, s=status: (s, {}, "why"))
        with pytest.raises(CannotRunError, match=f"{how} without a recorded call of JAX\nwhy"):
            record(source, ComparisonOptions(Tolerance()), str(tmp_path / "x.json"), print)


def test_a_program_that_fails_is_shown_with_its_own_frames_alone(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("def f():\n    raise ValueError('no')\nf()\n")
    settings = ComparisonOptions(Tolerance())
    source = parse_target(str(path))
    status, _, end = runs.run_program(source, RunOptions(quiet=True), settings, os.environ)
    places = [line.strip() for line in end.splitlines() if line.startswith("  File")]
    assert status == 1
    assert places == [f'File "{path}", line 3, in <module>', f'File "{path}", line 2, in f']


def test_a_process_that_lives_on_is_not_waited_for(capsys):
    text = """import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)
print("err", file=sys.stderr)
sys.exit(3)"""
    status, streams = run_and_read([sys.executable, "-c", text], os.environ, echo=True)
    os.kill(int(streams["stdout"]), 9)
    assert (status, streams["stderr"]) == (3, "err\n")
    assert capsys.readouterr().err == streams["stdout"] + "err\n"


def test_processes_are_compared_one_by_one():
    with pytest.raises(CannotRunError, match="2 processes before and 1 after"):
        judge_runs(_run(Capture(), Capture()), _run(Capture()), Tolerance())
    outcome = judge_runs(_run(Capture(), Capture()), _run(Capture(), Capture()), Tolerance())
    assert outcome.notes[0].startswith("2 processes, each compared with itself")
    assert judge_runs(_run(Capture()), _run(Capture()), Tolerance()).notes == ()


ONE = np.float32([1, 2, 3])
NEAR = ONE * np.float32(1.001)


@pytest.mark.parametrize(
    ("values", "verdict", "notes"),
    [
        ([ONE, ONE], "identical", []),
        ([ONE, NEAR, ONE], "different", ["BEFORE gave the same numbers in two runs"]),
        (
            [ONE, NEAR, NEAR * 2],
            "different",
            ["BEFORE gave different numbers in two runs: f (by_hand.py:1)"],
        ),
    ],
    ids=["identical", "different", "not deterministic"],
)
def test_a_program_that_differs_is_run_again(monkeypatch, values, verdict, notes):
    left = iter(values)

    def recorded(source, *_, **__):
        captured = by_hand({"f": [{"output": next(left)}]})
        return Run(Side(source.text), {0: captured}, "")

    monkeypatch.setattr(runs, "record", recorded)
    program = RunSource("train.py", Program("train.py"))
    outcome = runs.compare(program, program, ComparisonOptions(Tolerance()), lambda _: None)
    assert next(left, None) is None
    (site,) = outcome.sites
    assert site.verdict == verdict
    assert [*outcome.notes] == notes
    assert ("not deterministic" in str(site.causes)) == ("different numbers" in str(notes))


def test_operations_of_a_gpu_are_deterministic(monkeypatch):
    monkeypatch.setattr(child_environment, "has_accelerator", lambda: True)
    assert environment(None, {})["XLA_FLAGS"] == DETERMINISTIC
    flags = environment(None, {"XLA_FLAGS": "--a", "JAX_PLATFORMS": "cuda,cpu"})["XLA_FLAGS"]
    assert flags == f"--a {DETERMINISTIC}"
    own = {"XLA_FLAGS": "--xla_gpu_deterministic_ops=false"}
    assert environment(None, own)["XLA_FLAGS"] == own["XLA_FLAGS"]
    assert "XLA_FLAGS" not in environment(None, {"JAX_PLATFORMS": "cpu"})
    assert "XLA_FLAGS" not in environment(2, {})  # virtual CPU devices
    monkeypatch.setattr(child_environment, "has_accelerator", lambda: False)
    assert "XLA_FLAGS" not in environment(None, {})


@pytest.mark.parametrize(
    ("text", "message"), [("a\0b", "is neither"), ("'open", "is not a command")]
)
def test_targets_that_cannot_be_parsed(text, message):
    with pytest.raises(CannotRunError, match=message):
        parse_target(text)
