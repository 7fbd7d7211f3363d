"""Programs that are run, and what they print."""

from __future__ import annotations

import os
import sys

import pytest

from shardlift.verify.program_output import run_and_read


def test_both_streams_and_the_status() -> None:
    text = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    status, output = run_and_read([sys.executable, "-c", text], os.environ, echo=False)
    assert status == 3
    assert output.streams == {"stdout": "out\n", "stderr": "err\n"}
    assert output.end == "err"


def test_a_process_that_lives_on_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    text = f"import subprocess; print(subprocess.Popen({sleep!r}).pid)"
    _, output = run_and_read([sys.executable, "-c", text], os.environ, echo=True)
    os.kill(int(output.streams["stdout"]), 9)
    assert capsys.readouterr().err == output.streams["stdout"]
