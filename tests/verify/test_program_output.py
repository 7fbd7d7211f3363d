"""Programs that are run, what they print, and the files that they write."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from shardlift.verify.program_output import Content, empty_folder, read_folder, run_and_read


def test_both_streams_and_the_status() -> None:
    text = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    status, output = run_and_read([sys.executable, "-c", text], os.environ, echo=False)
    assert status == 3
    assert output.streams == {"stdout": "out\n", "stderr": "err\n"}
    assert output.end == "err"
    assert output.extent == "1 line of stdout, 1 line of stderr"


def test_a_process_that_lives_on_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    text = f"import subprocess; print(subprocess.Popen({sleep!r}).pid)"
    _, output = run_and_read([sys.executable, "-c", text], os.environ, echo=True)
    os.kill(int(output.streams["stdout"]), 9)
    assert capsys.readouterr().err == output.streams["stdout"]


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/log.txt").write_text("é\n")
    (tmp_path / "x.bin").write_bytes(b"\0\xff")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = read_folder(str(tmp_path))
    assert found["a/b/log.txt"].text == "é\n"
    assert found["x.bin"] == Content(found["x.bin"].digest, None)
    empty_folder(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    empty_folder(str(tmp_path / "missing"))
    assert read_folder(str(tmp_path / "missing")) == {}
