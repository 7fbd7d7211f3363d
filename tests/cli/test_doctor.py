"""`shardlift doctor`: what is installed, and whether pmap works here."""

import json
import os
import re
import sys
from types import SimpleNamespace

import jax
import pytest
from click.testing import CliRunner

from shardlift import __version__
from shardlift.cli import doctor as module
from shardlift.cli.doctor import doctor
from tests import children


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


def test_what_fails_is_told_with_its_error_and_a_way_out(monkeypatch):
    output = "[0] Traceback\n  File\n[0] RuntimeError: no route\n(set X to see more)\n"
    done = SimpleNamespace(returncode=1, stdout=output)
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: done)
    result = CliRunner().invoke(doctor)
    assert result.exit_code == 1
    assert "FAILED 2 processes: RuntimeError: no route\n       → " in result.output
    (first, *_) = json.loads(CliRunner().invoke(doctor, ["--format", "json"]).stdout)["left"]
    assert (first["code"], first["test"]) == ("failed", "your devices")


def test_what_hangs_is_ended():
    found = module._test(["-c", "import time; time.sleep(60)"], {}, 0.2)
    assert found == (True, "did not finish within 0 s")
