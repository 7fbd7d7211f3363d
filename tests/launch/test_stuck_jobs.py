"""Jobs that hang on purpose: what the launcher says of them, and how they end."""

import re
import sys
import textwrap
from pathlib import Path

import pytest

from shardlift.capture.parts import read_whole
from shardlift.launch.job import STUCK_STATUS
from tests import children

pytestmark = pytest.mark.slow
RUN = [sys.executable, "-m", "shardlift.cli", "run", "--processes", "2"]


STUCK = """
    import ctypes, os, signal, time
    import jax, jax.numpy as jnp

    step = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")
    x = jnp.ones(1)
    step(x).block_until_ready()
    me = jax.process_index()
    while not all(os.path.exists(f"run.json.{k}") for k in range(4)):
        time.sleep(0.05)
    if me == 1:
        ctypes.PyDLL(None).sleep(300)  # holds Python's lock
    if me == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    if me == 3:
        raise SystemExit
    step(x).block_until_ready()
"""


def test_a_stuck_job(tmp_path: Path):
    (tmp_path / "program.py").write_text(textwrap.dedent(STUCK))
    options = ["--processes", "4", "--stuck-after", "4", "--end-when-stuck"]
    options += ["--record", "run.json"]
    ours = children.run([*RUN, *options, "program.py"], cwd=tmp_path)
    assert ours.returncode == STUCK_STATUS, ours.stderr
    said = ours.stderr[ours.stderr.index("shardlift: for") :]
    lines = textwrap.dedent(STUCK).splitlines()
    step = len(lines)
    holds = lines.index("    ctypes.PyDLL(None).sleep(300)  # holds Python's lock") + 1
    for process, where in enumerate(
        (
            rf"waits at program.py:{step} in <module>: step",
            rf"waits at program.py:{holds} in <module>: ctypes",
            "does not answer",
            "at the end of the program",
        )
    ):
        assert re.search(rf"process {process} \(pid \d+\): {where}", said)
    assert "shardlift: the job was ended, because of --end-when-stuck\n" in said
    whole = read_whole(tmp_path / "run.json")
    assert [process.index for process in whole.processes] == [0, 1, 2, 3]


def test_options_that_do_not_go_together(tmp_path: Path):
    (tmp_path / "program.py").write_text("")
    for after in (["--processes", "2", "--stuck-after", "0"], ["--processes", "1"]):
        ours = children.run([*RUN, *after, "--end-when-stuck", str(tmp_path / "program.py")])
        assert ours.returncode == 2
        assert "--end-when-stuck needs --processes, and --stuck-after above 0" in ours.stderr
