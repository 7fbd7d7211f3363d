"""What is run, and in what."""

from __future__ import annotations

import pytest

from shardlift.facts import Capture, write
from shardlift.launch import Program
from shardlift.verify import runs
from shardlift.verify.runs import CannotRunError, environment, parse_target


def test_what_is_what(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "pkg").mkdir()
    write(Capture(), tmp_path / "run.json")
    assert parse_target("train.py", ["-x"]).program == Program("train.py", ("-x",))
    assert parse_target("python train.py -a", ["-x"]).program == Program("train.py", ("-a", "-x"))
    assert parse_target("-m pkg.go").program == Program("pkg.go", (), module=True)
    assert parse_target("pkg.go --fast").program == Program("pkg.go", ("--fast",), module=True)
    assert parse_target("pytest -k x").program == Program("pytest", ("-k", "x"), module=True)
    assert parse_target("run.json").capture
    for bad in ("nowhere.py", "no.such.thing", "  ", "./x y"):
        with pytest.raises(CannotRunError, match="neither|no such file"):
            parse_target(bad)


def test_devices(monkeypatch):
    monkeypatch.setattr(runs, "has_accelerator", lambda: False)
    assert environment(None, {})["JAX_NUM_CPU_DEVICES"] == "8"
    assert environment(4, {})["JAX_NUM_CPU_DEVICES"] == "4"
    assert environment(4, {"JAX_PLATFORMS": "cuda"})["JAX_PLATFORMS"] == "cpu"
    assert "JAX_NUM_CPU_DEVICES" not in environment(None, {"JAX_PLATFORMS": "cuda"})
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    assert "JAX_NUM_CPU_DEVICES" not in environment(None, flags)
    monkeypatch.setattr(runs, "has_accelerator", lambda: True)
    assert "JAX_PLATFORMS" not in environment(None, {})
    assert environment(None, {})["PYTHONHASHSEED"] == "0"
